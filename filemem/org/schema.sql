-- All but repo, access and token is made from Git: another VERSION drops it, and the workers bring it in again.
create table if not exists repo(id int generated always as identity primary key, name text unique not null,
  source text not null, store text not null default '', head text not null default '', seen timestamptz,
  failed text not null default '', records int not null default 0, passages int not null default 0);
alter table repo add column if not exists words text not null default '';
create table if not exists access(principal text not null, repo int not null references repo on delete cascade,
  primary key(principal, repo));
create table if not exists token(hash bytea primary key, name text not null, made timestamptz not null default now());

-- What is known of a record, and small; `body` has what is large and never changes.
create table doc(id bigint generated always as identity primary key, repo int not null references repo on delete cascade,
  path text not null, rid text not null, key text not null, blob text not null, created bigint not null,
  live boolean not null, shown boolean not null, meant text not null, facts text not null,
  node text not null, terms text[] not null, passages smallint not null, who text not null, unique(repo, path));
create index doc_rid on doc(rid, repo);
create index doc_key on doc(key, repo) where key <> '';
create index doc_blob on doc(blob);
-- What a record is called and refers to: values are digests, as nobody reads them.
create table link(doc bigint not null references doc on delete cascade, repo int not null, value bigint not null);
create index link_value on link(value);
create index link_doc on link(doc);
create table body(doc bigint primary key references doc on delete cascade, repo int not null, stems text not null,
  texts bytea not null, vectors bytea not null);
create table passage(doc bigint not null references doc on delete cascade, repo int not null, n smallint not null,
  vec halfvec(DIMENSIONS) not null, primary key(doc, n));
create index passage_repo on passage(repo);
create table df(term text primary key, n int[] not null);
create table total(docs bigint not null, tokens bigint[] not null);
create table meta(version int not null, model text not null);

-- Who asks is set for one transaction; without it nothing is visible, not even what everybody may see.
create function visible() returns setof int language sql stable security definer set search_path = SCHEMA, pg_temp
  as $$ select a.repo from access a, current_setting('filemem.principal', true) who
    where who <> '' and a.principal in (who, '*') $$;
-- Under row security no operator of a word index counts as safe, so this looks with the owner's eyes, and filters itself.
-- `offset 0` keeps the planner, which knows nothing of how rare a word is, from another order.
create function holding(words text[], worth real[]) returns table(doc bigint, worth real) rows 100
  language sql stable security definer set search_path = SCHEMA, pg_temp set enable_seqscan = off set enable_indexscan = off
  as $$ select x.doc, sum(w.worth) from unnest(words, worth) w(word, worth), lateral (select b.doc, b.repo from body b
    where string_to_array(b.stems, ' ') @> array[w.word] offset 0) x where x.repo in (select visible()) group by x.doc $$;
revoke all on function visible(), holding(text[], real[]) from public;
grant usage on schema SCHEMA to filemem_reader;
grant select on repo, doc, link, body, passage, df, total, meta to filemem_reader;
grant execute on function visible(), holding(text[], real[]) to filemem_reader;
