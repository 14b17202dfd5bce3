"""What is needed to make parts of filemem, and never to use it."""
