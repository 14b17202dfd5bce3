#!/bin/sh
# Makes the logins of the worker and the service, before `filemem org init` gives their roles rights.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set worker="$WORKER_PASSWORD" --set service="$SERVICE_PASSWORD" <<'SQL'
select format('create role %I', 'filemem_worker_' || current_database()) \gexec
select format('create role %I', 'filemem_service_' || current_database()) \gexec
select format('create role fm_worker login password %L in role %I', :'worker',
  'filemem_worker_' || current_database()) \gexec
select format('create role fm_service login password %L in role %I', :'service',
  'filemem_service_' || current_database()) \gexec
SQL
