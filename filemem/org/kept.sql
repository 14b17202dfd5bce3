-- What Git does not have: a backup keeps these tables, and no VERSION drops them.
create table if not exists repo(id int generated always as identity primary key,
  name text unique not null, source text not null, seen timestamptz,
  failed text not null default '', tries int not null default 0);
alter table repo add column if not exists tries int not null default 0;
alter table repo drop column if exists store, drop column if exists head,
  drop column if exists records, drop column if exists passages, drop column if exists words;
alter table repo add column if not exists host text
  generated always as (case when source like '/%' then '' else split_part(name, '/', 1) end) stored;
create table if not exists access(principal text not null,
  repo int not null references repo on delete cascade, primary key(principal, repo));
create table if not exists member(name text not null, team text not null,
  primary key(name, team));
create table if not exists token(hash bytea primary key, name text not null,
  made timestamptz not null default now());
alter table token add column if not exists ends timestamptz;
create table if not exists audit(at timestamptz not null default now(), name text not null,
  verb text not null, query text not null, shown text[] not null);
create index if not exists audit_at on audit(at);
create table if not exists job(repo int primary key references repo on delete cascade,
  due timestamptz not null default now(), pushed timestamptz, hooked timestamptz,
  holder text not null default '', held timestamptz, tries int not null default 0);
create index if not exists job_due on job(due);
