create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000)
insert into t select x, printf('%d squared is %d', x, x * x) from c;
create index i on t(b);
delete from t where a % 7 = 0;
update t set b = b || '!' where a % 5 = 0;
select count(*), sum(length(b)) from t;
pragma integrity_check;
