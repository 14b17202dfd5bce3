-- Who may do what. It is made again each time: a backup may come from a server with other roles.
-- Who asks is set for one transaction; without it nothing is visible, not even what everybody may see.
create or replace function visible() returns setof int
  language sql stable security definer set search_path = SCHEMA, pg_temp
  as $$ select a.repo from access a, current_setting('filemem.principal', true) who
    where who <> '' and left(who, 1) not in ('@', '*') and a.principal in (
      select '*' union all select who
      union all select '@' || m.team from member m where m.name = who
      union all select '@' || g from json_array_elements_text(
        coalesce(nullif(current_setting('filemem.groups', true), ''), '[]')::json) g) $$;
create or replace function whose(wanted bytea) returns text
  language sql stable security definer set search_path = SCHEMA, pg_temp
  as $$ select name from token where hash = wanted and (ends is null or ends > now()) $$;
-- The records with some words, of the repositories that may be seen: rights come first, by `df`, and only then is the
-- index of words looked at. Under row security no operator of such an index counts as safe, so this looks with the
-- owner's eyes. `offset 0` keeps the planner, which knows nothing of how rare a word is, from another order.
create or replace function holding(words text[], worth real[], most int)
  returns table(doc bigint, worth real) rows 100
  language sql stable security definer set search_path = SCHEMA, pg_temp set enable_seqscan = off
  as $$ select x.doc, sum(x.worth) from (select b.doc, w.worth
      from unnest(words, worth) with ordinality w(word, worth, at),
      lateral (select f.repo from df f where f.term = rtrim(w.word, '^')
        and f.repo in (select visible()) offset 0) f,
      lateral (select b.doc from body b
        where keys(b.repo, b.stems) @> array[f.repo || ' ' || w.word] offset 0) b
      limit most) x group by x.doc $$;
-- What the service notes of a question; it cannot read it again.
create or replace function note(name text, verb text, query text, shown text[], days int)
  returns void language sql security definer set search_path = SCHEMA, pg_temp as $$
  delete from audit where at < now() - make_interval(days => $5);
  insert into audit(name, verb, query, shown) values ($1, $2, $3, $4) $$;
-- What a hook may do: make repositories due, and wake the workers.
create or replace function report(names text[]) returns bigint
  language sql security definer set search_path = SCHEMA, pg_temp as $$
  with due as (insert into job(repo, pushed, hooked) select id, now(), now() from repo
    where lower(name) = any(names) on conflict (repo) do update
    set due = now(), pushed = now(), hooked = now() returning repo),
  heard as (select pg_notify('filemem_push', '') from due)
  select count(*) from heard $$;
-- How each repository stands: for the worker, and for whose token may read figures.
drop view if exists standing cascade;
create view standing as select r.name, (extract(epoch from r.seen) * 1000)::bigint as seen,
  extract(epoch from now() - r.seen)::float8 as age, r.failed,
  coalesce(s.records, 0) as records, coalesce(s.passages, 0) as passages,
  j.pushed is not null as pushed, coalesce(j.held > now(), false) as held,
  case when j.held > now() or j.due > now() or j.repo is null then 0
    else extract(epoch from now() - j.due)::float8 end as late,
  coalesce(s.left_out, '') as left_out
  from repo r left join state s on s.repo = r.id left join job j on j.repo = r.id;
create function figures(hash bytea) returns setof standing
  language sql stable security definer set search_path = SCHEMA, pg_temp as $$
  select s.* from standing s
    where exists(select from token t where t.hash = $1 and t.name = 'metrics' and (t.ends is null or t.ends > now())) $$;
-- The planner's figures and the graph are the owner's to make, and the worker's to ask for.
create or replace procedure tidy() language sql security definer set search_path = SCHEMA, pg_temp
  as $$ analyze doc, link, body, passage, df $$;
create or replace procedure connect_passages()
  language sql security definer set search_path = SCHEMA, pg_temp
  as $$ create index if not exists passage_vec on passage using hnsw (vec halfvec_cosine_ops) $$;
revoke all on function note(text, text, text, text[], int), report(text[]), figures(bytea), visible(), whose(bytea), holding(text[], real[], int) from public;
revoke all on procedure tidy(), connect_passages() from public;
grant temporary on database DATABASE to WORKER;
grant usage on schema SCHEMA to WORKER, SERVICE;
grant select on repo, state, doc, link, body, passage, df, meta to WORKER, SERVICE;
grant update(seen, failed, tries) on repo to WORKER;
grant insert, update, delete on state, doc, link, body, passage, df to WORKER;
grant select, insert, update on job to WORKER;
grant select on standing to WORKER;
grant usage on sequence doc_id_seq to WORKER;
grant execute on procedure tidy(), connect_passages() to WORKER;
grant execute on function note(text, text, text, text[], int), report(text[]), figures(bytea), visible(), whose(bytea), holding(text[], real[], int) to SERVICE;
