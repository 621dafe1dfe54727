-- Queries of the oracle tests: in Selat's SQL, then in DuckDB's over all the input at once.
-- `parcels` are the orders of asia, as a stream of their own. In the oracle `orders` has the column `site`, and `w(ts, n)` is the start of ts's window of n seconds.
-- Names and types of columns are compared, too: by tests/e2e/oracle.py, and a CAST in the oracle says which type Spark's rules give where DuckDB's differ
-- (a sum of DECIMAL(p,s) is a DECIMAL(p + 10,s), an average one of (p + 4,s + 4); length is an INT).

-- name: projection
SELECT id, quantity * price AS total, upper(product) AS product FROM orders WHERE quantity >= 7
-- oracle
SELECT id, quantity * price AS total, upper(product) AS product FROM orders WHERE quantity >= 7

-- name: expressions
SELECT id, CASE WHEN price > 50 THEN 'dear' ELSE 'cheap' END AS class, coalesce(quantity, 0) AS q,
date_format(ts, 'yyyy-MM-dd HH:mm') AS minute, site FROM orders WHERE express AND (price IS NULL OR price
BETWEEN 20 AND 30)
-- oracle
SELECT id, CASE WHEN price > 50 THEN 'dear' ELSE 'cheap' END AS class, coalesce(quantity, 0) AS q,
strftime(ts, '%Y-%m-%d %H:%M') AS minute, site FROM orders WHERE express AND (price IS NULL OR price BETWEEN
20 AND 30)

-- name: count_per_window
SELECT window.start AS s, count(*) AS n FROM orders GROUP BY window(ts, '10 seconds')
-- oracle
SELECT w(ts, 10) AS s, count(*) AS n FROM orders GROUP BY 1

-- name: all_aggregates
SELECT product, window.start AS s, count(*) AS n, count(price) AS c, sum(quantity) AS q, min(price) AS lo,
max(price) AS hi, avg(price) AS mean, avg(quantity) AS meanq FROM orders GROUP BY product, window(ts, '30
seconds')
-- oracle
SELECT product, w(ts, 30) AS s, count(*) AS n, count(price) AS c, sum(quantity) AS q, min(price) AS lo,
max(price) AS hi, avg(price) AS mean, avg(quantity) AS meanq FROM orders GROUP BY 1, 2

-- name: decimals
SELECT window.end AS e, sum(fee) AS fees, max(fee) AS top, round(CAST(avg(fee) AS DOUBLE), 4) AS mean FROM orders
GROUP BY window(ts, '1 minute')
-- oracle
SELECT w(ts, 60) + INTERVAL 60 SECOND AS e, CAST(sum(fee) AS DECIMAL(20,2)) AS fees, max(fee) AS top, round(avg(fee), 4) AS mean FROM orders GROUP BY 1

-- name: having
SELECT window.start AS s, product, sum(quantity) AS q FROM orders WHERE price > 10 GROUP BY window(ts, '10
seconds'), product HAVING sum(quantity) > 50 AND count(*) > 5
-- oracle
SELECT w(ts, 10) AS s, product, sum(quantity) AS q FROM orders WHERE price > 10 GROUP BY 1, 2 HAVING
sum(quantity) > 50 AND count(*) > 5

-- name: shifted_windows
SELECT window.start AS s, window.end AS e, count(*) AS n FROM orders GROUP BY window(ts, '10 seconds', '10 seconds', '-3 seconds')
-- oracle
SELECT w(ts + INTERVAL 3 SECOND, 10) - INTERVAL 3 SECOND AS s, w(ts + INTERVAL 3 SECOND, 10) + INTERVAL 7 SECOND AS e, count(*) AS n FROM orders GROUP BY 1, 2

-- name: slide_that_does_not_divide
SELECT window.start AS s, product, count(*) AS n, avg(price) AS mean FROM orders
GROUP BY window(ts, '20 seconds', '8 seconds', '3 seconds'), product
-- oracle
SELECT s, product, count(*) AS n, avg(price) AS mean FROM (SELECT *, w(ts - INTERVAL 3 SECOND, 8) +
to_seconds(3 - 8 * unnest(range(3))) AS s FROM orders) WHERE ts < s + INTERVAL 20 SECOND GROUP BY 1, 2

-- name: cumulative_windows
SELECT window.start AS s, window.end AS e, product, count(*) AS n, avg(price) AS mean FROM orders
GROUP BY cumulate_window(ts, '30 seconds', '10 seconds'), product
-- oracle
SELECT w(ts, 30) AS s, e, product, count(*) AS n, avg(price) AS mean FROM (SELECT *, w(ts, 30) +
to_seconds(10 * unnest(range(1, 4))) AS e FROM orders) WHERE ts < e GROUP BY ALL

-- name: best_of_cumulative_windows
SELECT w.end AS e, max(n) AS most, count(*) AS products FROM (SELECT cumulate_window(ts, '30 seconds', '10 seconds')
AS w, product, count(*) AS n FROM orders GROUP BY w, product) AS d GROUP BY w
-- oracle
SELECT e, max(n) AS most, count(*) AS products FROM (SELECT e, product, count(*) AS n FROM (SELECT *, w(ts, 30) +
to_seconds(10 * unnest(range(1, 4))) AS e FROM orders) WHERE ts < e GROUP BY ALL) GROUP BY e

-- name: minutes_as_keys
SELECT date_format(ts, 'yyyy-MM-dd HH:mm') AS m, date(ts) AS day, product, count(*) AS n, sum(quantity) AS q FROM orders
GROUP BY m, day, product
-- oracle
SELECT strftime(ts, '%Y-%m-%d %H:%M') AS m, CAST(ts AS DATE) AS day, product, count(*) AS n, sum(quantity) AS q
FROM orders GROUP BY ALL

-- name: best_of_minutes
SELECT m, max(n) AS most FROM (SELECT date_trunc('MINUTE', ts) AS m, product, count(*) AS n FROM orders GROUP BY m,
product) AS d GROUP BY m
-- oracle
SELECT m, max(n) AS most FROM (SELECT date_trunc('minute', ts) AS m, product, count(*) AS n FROM orders GROUP BY ALL)
GROUP BY m

-- name: months_as_keys
SELECT date_format(ts, 'yyyy-MM') AS m, date_trunc('YEAR', ts) AS y, product, count(*) AS n FROM orders
GROUP BY m, y, product
-- oracle
SELECT strftime(ts, '%Y-%m') AS m, date_trunc('year', ts) AS y, product, count(*) AS n FROM orders GROUP BY ALL

-- name: best_of_quarters
SELECT q, product, n FROM (SELECT date_trunc('QUARTER', ts) AS q, product, count(*) AS n FROM orders GROUP BY q,
product) AS d QUALIFY rank() OVER (PARTITION BY q ORDER BY n DESC) <= 2
-- oracle
SELECT q, product, n FROM (SELECT date_trunc('quarter', ts) AS q, product, count(*) AS n FROM orders GROUP BY ALL)
QUALIFY rank() OVER (PARTITION BY q ORDER BY n DESC) <= 2

-- name: join
SELECT window.start AS s, p.category, count(*) AS n, sum(o.quantity * o.price) AS total FROM orders o JOIN
products p ON o.product = p.product GROUP BY window(o.ts, '30 seconds'), p.category
-- oracle
SELECT w(o.ts, 30) AS s, p.category, count(*) AS n, sum(o.quantity * o.price) AS total FROM orders o JOIN
products p ON o.product = p.product GROUP BY 1, 2

-- name: left_join
SELECT o.id, p.name FROM orders o LEFT JOIN products p ON o.product = p.product AND p.category <> 'A' WHERE
o.quantity = 8
-- oracle
SELECT o.id, p.name FROM orders o LEFT JOIN products p ON o.product = p.product AND p.category <> 'A' WHERE
o.quantity = 8

-- name: join_at_the_same_site
SELECT window.start AS s, o.site, sum(k.amount) AS amount FROM orders o JOIN stock k ON o.product = k.product
AND o.site = k.site GROUP BY window(o.ts, '1 minute'), o.site
-- oracle
SELECT w(o.ts, 60) AS s, o.site, sum(k.amount) AS amount FROM orders o JOIN stock k ON o.product = k.product
AND o.site = k.site GROUP BY 1, 2

-- name: join_of_all_shards
SELECT o.id, k.amount, k.site AS kept_at FROM orders o JOIN stock k USING (product) WHERE o.price > 95
-- oracle
SELECT o.id, k.amount, k.site AS kept_at FROM orders o JOIN stock k USING (product) WHERE o.price > 95

-- name: top_k
SELECT window.start AS s, product, count(*) AS n FROM orders GROUP BY window(ts, '30 seconds'), product
QUALIFY row_number() OVER (PARTITION BY window ORDER BY count(*) DESC, product) <= 3
-- oracle
SELECT * FROM (SELECT w(ts, 30) AS s, product, count(*) AS n FROM orders GROUP BY 1, 2) QUALIFY row_number()
OVER (PARTITION BY s ORDER BY n DESC, product) <= 3

-- name: pruned_sites
SELECT site, window.start AS s, max(price) AS hi FROM orders WHERE site IN ('us', 'asia') GROUP BY site,
window(ts, '10 seconds')
-- oracle
SELECT site, w(ts, 10) AS s, max(price) AS hi FROM orders WHERE site IN ('us', 'asia') GROUP BY 1, 2

-- name: conditional
SELECT window.start AS s, count(*) FILTER (WHERE express) AS fast, sum(CASE WHEN price > 50 THEN 1 ELSE 0 END)
AS dear FROM orders GROUP BY window(ts, '30 seconds')
-- oracle
SELECT w(ts, 30) AS s, count(*) FILTER (WHERE express) AS fast, sum(CASE WHEN price > 50 THEN 1 ELSE 0 END) AS
dear FROM orders GROUP BY 1

-- name: group_by_expression
SELECT length(product) + quantity % 2 AS k, window.start AS s, sum(price) / count(*) + 1 AS x FROM orders
WHERE quantity IS NOT NULL GROUP BY 1, window(ts, '1 minute')
-- oracle
SELECT CAST(length(product) AS INTEGER) + quantity % 2 AS k, w(ts, 60) AS s, sum(price) / count(*) + 1 AS x FROM orders WHERE
quantity IS NOT NULL GROUP BY 1, 2

-- name: join_with_an_empty_table
SELECT o.id, r.reason FROM orders o LEFT JOIN recalls r ON o.product = r.product WHERE o.quantity = 1
-- oracle
SELECT o.id, r.reason FROM orders o LEFT JOIN recalls r ON o.product = r.product WHERE o.quantity = 1

-- name: sliding_windows
SELECT window.start AS s, window.end AS e, product, count(*) AS n, sum(price) AS total FROM orders GROUP BY
window(ts, '20 seconds', '5 seconds'), product
-- oracle
SELECT s, s + INTERVAL 20 SECOND AS e, product, count(*) AS n, sum(price) AS total FROM (SELECT *, w(ts, 5) -
to_seconds(5 * unnest(range(4))) AS s FROM orders) GROUP BY 1, 2, 3

-- name: spreads
SELECT product, window.start AS s, stddev(price) AS sd, stddev_pop(quantity) AS sp, variance(price + 1000000) AS v,
var_pop(fee) FILTER (WHERE express) AS vp FROM orders GROUP BY product, window(ts, '30 seconds')
-- oracle
SELECT product, w(ts, 30) AS s, stddev_samp(price) AS sd, stddev_pop(quantity) AS sp, var_samp(price) AS v,
var_pop(CAST(fee AS DOUBLE)) FILTER (WHERE express) AS vp FROM orders GROUP BY 1, 2

-- name: distinct_values
SELECT window.start AS s, express, count(DISTINCT product) AS p, count(DISTINCT product, quantity) AS pq,
sum(DISTINCT quantity) AS q, avg(DISTINCT fee) AS fee, count(DISTINCT fee) FILTER (WHERE quantity > 4) AS f,
count(*) AS n FROM orders GROUP BY window(ts, '10 seconds'), express
-- oracle
SELECT w(ts, 10) AS s, express, count(DISTINCT product) AS p, count(DISTINCT (product, quantity)) FILTER (quantity
IS NOT NULL) AS pq, sum(DISTINCT quantity) AS q, CAST(sum(DISTINCT fee) / count(DISTINCT fee) AS DECIMAL(14,6)) AS
fee, count(DISTINCT fee) FILTER (WHERE quantity > 4) AS f, count(*) AS n FROM orders GROUP BY 1, 2

-- name: distinct_rows
SELECT DISTINCT window(ts, '10 seconds').start AS s, product, express FROM orders WHERE quantity > 7
-- oracle
SELECT DISTINCT w(ts, 10) AS s, product, express FROM orders WHERE quantity > 7

-- name: top_k_per_group
SELECT window.start AS s, site, product, sum(price) AS total FROM orders GROUP BY window(ts, '30 seconds'), site,
product QUALIFY row_number() OVER (PARTITION BY window, site ORDER BY total DESC) <= 3
-- oracle
SELECT * FROM (SELECT w(ts, 30) AS s, site, product, sum(price) AS total FROM orders GROUP BY 1, 2, 3) QUALIFY
row_number() OVER (PARTITION BY s, site ORDER BY total DESC) <= 3

-- name: top_ranks_per_group
SELECT window.end AS e, express, product, count(*) AS n FROM orders WHERE quantity < 5 GROUP BY window(ts, '1 minute',
'30 seconds'), express, product QUALIFY dense_rank() OVER (PARTITION BY express, window.end ORDER BY n DESC) < 3
-- oracle
SELECT * FROM (SELECT s + INTERVAL 60 SECOND AS e, express, product, count(*) AS n FROM (SELECT *, w(ts, 30) -
to_seconds(30 * unnest(range(2))) AS s FROM orders) WHERE quantity < 5 GROUP BY 1, 2, 3) QUALIFY dense_rank() OVER
(PARTITION BY express, e ORDER BY n DESC) < 3

-- name: join_of_three_tables
SELECT window.start AS s, p.category, o.site, count(*) AS n, count(r.reason) AS recalled, sum(k.amount) AS amount FROM
orders o LEFT JOIN recalls r ON o.product = r.product JOIN products p ON p.product = o.product AND p.category <> 'B'
LEFT JOIN stock k ON k.product = p.product AND k.site = o.site AND k.amount > 3 GROUP BY window(o.ts, '1 minute'),
p.category, o.site
-- oracle
SELECT w(o.ts, 60) AS s, p.category, o.site, count(*) AS n, count(r.reason) AS recalled, sum(k.amount) AS amount FROM
orders o LEFT JOIN recalls r ON o.product = r.product JOIN products p ON p.product = o.product AND p.category <> 'B'
LEFT JOIN stock k ON k.product = p.product AND k.site = o.site AND k.amount > 3 GROUP BY 1, 2, 3

-- name: window_join
SELECT window(a.ts, '10 seconds').start AS s, a.id, b.id AS other, b.site FROM orders a JOIN orders b ON a.product =
b.product AND a.quantity = b.quantity AND window(a.ts, '10 seconds') = window(b.ts, '10 seconds') AND a.id < b.id
WHERE a.price > 80
-- oracle
SELECT w(a.ts, 10) AS s, a.id, b.id AS other, b.site FROM orders a JOIN orders b ON a.product = b.product AND
a.quantity = b.quantity AND w(a.ts, 10) = w(b.ts, 10) AND a.id < b.id WHERE a.price > 80

-- name: window_left_join
SELECT a.id, p.id AS parcel, p.fee FROM orders a LEFT JOIN parcels p ON a.product = p.product AND p.fee > 4.5 AND
a.quantity > 5 AND window(a.ts, '10 seconds') = window(p.ts, '10 seconds') WHERE a.site <> 'eu'
-- oracle
SELECT a.id, p.id AS parcel, p.fee FROM orders a LEFT JOIN parcels p ON a.product = p.product AND p.fee > 4.5 AND
a.quantity > 5 AND w(a.ts, 10) = w(p.ts, 10) WHERE a.site <> 'eu'

-- name: window_join_of_rows_without_match
SELECT a.id, a.product FROM orders a LEFT JOIN parcels p ON a.product = p.product AND a.fee < p.fee AND window(a.ts,
'5 seconds') = window(p.ts, '5 seconds') WHERE p.id IS NULL AND a.site = 'us'
-- oracle
SELECT a.id, a.product FROM orders a LEFT JOIN parcels p ON a.product = p.product AND a.fee < p.fee AND w(a.ts, 5) =
w(p.ts, 5) WHERE p.id IS NULL AND a.site = 'us'

-- name: window_right_join
SELECT window.start AS s, p.product, count(a.id) AS orders, count(*) AS n FROM orders a RIGHT JOIN parcels p ON a.product
= p.product AND a.quantity = 8 AND p.fee > 1 AND window(a.ts, '5 seconds') = window(p.ts, '5 seconds') GROUP BY
window(p.ts, '5 seconds'), p.product
-- oracle
SELECT w(p.ts, 5) AS s, p.product, count(a.id) AS orders, count(*) AS n FROM orders a RIGHT JOIN parcels p ON a.product
= p.product AND a.quantity = 8 AND p.fee > 1 AND w(a.ts, 5) = w(p.ts, 5) GROUP BY 1, 2

-- name: window_full_join
SELECT coalesce(a.product, p.product) AS product, a.id, p.id AS parcel FROM orders a FULL JOIN parcels p ON a.product =
p.product AND a.price > 95 AND p.fee > 4 AND window(a.ts, '2 seconds') = window(p.ts, '2 seconds') WHERE a.id IS NULL OR
a.price > 90
-- oracle
SELECT coalesce(a.product, p.product) AS product, a.id, p.id AS parcel FROM orders a FULL JOIN parcels p ON a.product =
p.product AND a.price > 95 AND p.fee > 4 AND w(a.ts, 2) = w(p.ts, 2) WHERE a.id IS NULL OR a.price > 90

-- name: window_full_join_aggregate
SELECT window.start AS s, coalesce(a.product, p.product) AS product, count(a.id) AS n, count(p.id) AS m FROM orders a FULL
JOIN parcels p ON a.product = p.product AND a.id = p.id AND window(a.ts, '5 seconds') = window(p.ts, '5 seconds') GROUP BY
window(coalesce(a.ts, p.ts), '5 seconds'), coalesce(a.product, p.product)
-- oracle
SELECT w(coalesce(a.ts, p.ts), 5) AS s, coalesce(a.product, p.product) AS product, count(a.id) AS n, count(p.id) AS m FROM
orders a FULL JOIN parcels p ON a.product = p.product AND a.id = p.id AND w(a.ts, 5) = w(p.ts, 5) GROUP BY 1, 2

-- name: window_semi_join
SELECT a.id, a.site FROM orders a LEFT SEMI JOIN parcels p ON a.product = p.product AND p.fee > a.fee AND window(a.ts,
'5 seconds') = window(p.ts, '5 seconds') WHERE a.quantity < 4
-- oracle
SELECT a.id, a.site FROM orders a SEMI JOIN parcels p ON a.product = p.product AND p.fee > a.fee AND w(a.ts, 5) = w(p.ts,
5) WHERE a.quantity < 4

-- name: window_not_exists
SELECT window.start AS s, a.product, count(*) AS n FROM orders a WHERE NOT EXISTS (SELECT 1 FROM parcels p WHERE p.product
= a.product AND p.fee > a.fee AND window(a.ts, '5 seconds') = window(p.ts, '5 seconds')) GROUP BY window(a.ts, '5
seconds'), a.product
-- oracle
SELECT w(a.ts, 5) AS s, a.product, count(*) AS n FROM orders a WHERE NOT EXISTS (SELECT 1 FROM parcels p WHERE p.product =
a.product AND p.fee > a.fee AND w(a.ts, 5) = w(p.ts, 5)) GROUP BY 1, 2

-- name: join_of_windowed_aggregates_full
SELECT coalesce(o.w, p.w).start AS s, coalesce(o.product, p.product) AS product, n, m FROM (SELECT window(ts, '5 seconds')
AS w, product, count(*) AS n FROM orders WHERE price > 80 GROUP BY 1, 2) AS o FULL JOIN (SELECT window(ts, '5 seconds') AS
w, product, count(*) AS m FROM parcels WHERE fee > 4 GROUP BY 1, 2) AS p ON o.w = p.w AND o.product = p.product
-- oracle
SELECT coalesce(o.w, p.w) AS s, coalesce(o.product, p.product) AS product, n, m FROM (SELECT w(ts, 5) AS w, product,
count(*) AS n FROM orders WHERE price > 80 GROUP BY 1, 2) AS o FULL JOIN (SELECT w(ts, 5) AS w, product, count(*) AS m FROM
parcels WHERE fee > 4 GROUP BY 1, 2) AS p ON o.w = p.w AND o.product = p.product

-- name: window_join_aggregate
SELECT window.start AS s, a.product, count(*) AS n, sum(p.fee) AS fees, avg(a.price) AS mean, count(DISTINCT p.id) AS
parcels, max(a.quantity) FILTER (WHERE a.express) AS fast FROM orders a JOIN parcels p ON a.product = p.product AND
window(a.ts, '10 seconds') = window(p.ts, '10 seconds') GROUP BY window(a.ts, '10 seconds'), a.product HAVING count(*)
> 100
-- oracle
SELECT w(a.ts, 10) AS s, a.product, count(*) AS n, CAST(sum(p.fee) AS DECIMAL(20,2)) AS fees, avg(a.price) AS mean, count(DISTINCT p.id) AS
parcels, max(a.quantity) FILTER (WHERE a.express) AS fast FROM orders a JOIN parcels p ON a.product = p.product AND
w(a.ts, 10) = w(p.ts, 10) GROUP BY 1, 2 HAVING count(*) > 100

-- name: window_join_top_k
SELECT window.end AS e, a.site, a.product, count(*) AS n FROM orders AS a JOIN orders AS b ON a.product = b.product AND
b.express AND window(a.ts, '30 seconds') = window(b.ts, '30 seconds') AND a.id <> b.id GROUP BY window(a.ts, '30
seconds'), a.site, a.product QUALIFY row_number() OVER (PARTITION BY window, a.site ORDER BY n DESC, a.product) <= 2
-- oracle
SELECT * FROM (SELECT w(a.ts, 30) + INTERVAL 30 SECOND AS e, a.site, a.product, count(*) AS n FROM orders AS a JOIN
orders AS b ON a.product = b.product AND b.express AND w(a.ts, 30) = w(b.ts, 30) AND a.id <> b.id GROUP BY 1, 2, 3)
QUALIFY row_number() OVER (PARTITION BY e, site ORDER BY n DESC, product) <= 2

-- name: window_join_sliding
SELECT window(a.ts, '20 seconds', '5 seconds').end AS e, a.id, p.id AS parcel FROM orders a JOIN parcels p ON a.product
= p.product AND window(a.ts, '20 seconds', '5 seconds') = window(p.ts, '20 seconds', '5 seconds') AND p.fee > 4.8
WHERE a.quantity = 8
-- oracle
SELECT a.s + INTERVAL 20 SECOND AS e, a.id, p.id AS parcel FROM (SELECT *, w(ts, 5) - to_seconds(5 * unnest(range(4)))
AS s FROM orders) a JOIN (SELECT *, w(ts, 5) - to_seconds(5 * unnest(range(4))) AS s FROM parcels) p ON a.product =
p.product AND a.s = p.s AND p.fee > 4.8 WHERE a.quantity = 8

-- name: window_join_of_three_streams
SELECT window.start AS s, c.site, count(*) AS n, count(p.id) AS m FROM orders a JOIN orders c ON a.product = c.product
AND a.quantity = c.quantity AND window(a.ts, '10 seconds') = window(c.ts, '10 seconds') LEFT JOIN parcels p ON p.id =
c.id AND p.fee < 2 AND window(c.ts, '10 seconds') = window(p.ts, '10 seconds') WHERE a.site = 'eu' GROUP BY
window(a.ts, '10 seconds'), c.site
-- oracle
SELECT w(a.ts, 10) AS s, c.site, count(*) AS n, count(p.id) AS m FROM orders a JOIN orders c ON a.product = c.product
AND a.quantity = c.quantity AND w(a.ts, 10) = w(c.ts, 10) LEFT JOIN parcels p ON p.id = c.id AND p.fee < 2 AND w(c.ts,
10) = w(p.ts, 10) WHERE a.site = 'eu' GROUP BY 1, 2

-- name: window_join_with_tables
SELECT window.start AS s, n.category, count(*) AS n, sum(k.amount) AS amount, count(r.reason) AS recalled FROM orders a
JOIN parcels p ON a.product = p.product AND a.quantity < 3 AND window(a.ts, '10 seconds') = window(p.ts, '10 seconds')
JOIN products n ON n.product = p.product LEFT JOIN stock k ON k.product = a.product AND k.site = a.site LEFT JOIN
recalls r ON r.product = a.product AND r.product = p.product GROUP BY window(a.ts, '10 seconds'), n.category
-- oracle
SELECT w(a.ts, 10) AS s, n.category, count(*) AS n, sum(k.amount) AS amount, count(r.reason) AS recalled FROM orders a
JOIN parcels p ON a.product = p.product AND a.quantity < 3 AND w(a.ts, 10) = w(p.ts, 10) JOIN products n ON n.product =
p.product LEFT JOIN stock k ON k.product = a.product AND k.site = a.site LEFT JOIN recalls r ON r.product = a.product
AND r.product = p.product GROUP BY 1, 2

-- name: window_left_join_with_a_table_behind_it
SELECT DISTINCT window(a.ts, '10 seconds').start AS s, a.product, n.category, n.name FROM orders a LEFT JOIN parcels p
ON a.product = p.product AND p.fee > 4.9 AND window(a.ts, '10 seconds') = window(p.ts, '10 seconds') LEFT JOIN products
n ON n.product = p.product AND n.category <> 'C'
-- oracle
SELECT DISTINCT w(a.ts, 10) AS s, a.product, n.category, n.name FROM orders a LEFT JOIN parcels p ON a.product =
p.product AND p.fee > 4.9 AND w(a.ts, 10) = w(p.ts, 10) LEFT JOIN products n ON n.product = p.product AND n.category <>
'C'
-- name: sub_query
SELECT id, total * 2 AS twice FROM (SELECT id, quantity * price AS total, site AS born FROM orders WHERE quantity > 6)
AS d WHERE born <> 'us' AND total > 300
-- oracle
SELECT id, quantity * price * 2 AS twice FROM orders WHERE quantity > 6 AND site <> 'us' AND quantity * price > 300

-- name: sub_query_with_star_and_site
SELECT id, born, q FROM (SELECT *, site AS born, coalesce(quantity, 0) AS q FROM orders WHERE express) AS d WHERE price > 50
-- oracle
SELECT id, site AS born, coalesce(quantity, 0) AS q FROM orders WHERE express AND price > 50

-- name: common_tables
WITH big(id, at, p, total) AS (SELECT id, ts, product, quantity * price FROM orders WHERE quantity > 3), named AS
(SELECT b.at, b.total, coalesce(r.reason, '-') AS reason FROM big AS b LEFT JOIN recalls r ON b.p = r.product)
SELECT window.start AS s, reason, count(*) AS n, sum(total) AS total FROM named GROUP BY window(at, '30 seconds'), reason
-- oracle
SELECT w(o.ts, 30) AS s, coalesce(r.reason, '-') AS reason, count(*) AS n, sum(o.quantity * o.price) AS total
FROM orders o LEFT JOIN recalls r ON o.product = r.product WHERE o.quantity > 3 GROUP BY 1, 2

-- name: joined_sub_query
SELECT o.id, d.n FROM orders o LEFT JOIN (SELECT product, upper(name) AS n FROM products WHERE category <> 'A') AS d
USING (product) WHERE o.quantity = 2
-- oracle
SELECT o.id, upper(d.name) AS n FROM orders o LEFT JOIN (SELECT * FROM products WHERE category <> 'A') AS d
ON o.product = d.product WHERE o.quantity = 2

-- name: union_all_rows
SELECT id, quantity AS x FROM orders WHERE quantity > 8 UNION ALL SELECT id, price FROM orders WHERE price > 95
UNION ALL SELECT id, fee FROM orders WHERE site = 'eu' AND fee > 4
-- oracle
SELECT id, CAST(quantity AS DOUBLE) AS x FROM orders WHERE quantity > 8 UNION ALL SELECT id, price FROM orders WHERE
price > 95 UNION ALL SELECT id, CAST(fee AS DOUBLE) FROM orders WHERE site = 'eu' AND fee > 4

-- name: union_all_aggregates
SELECT window.start AS s, 'all' AS what, count(*) AS n FROM orders GROUP BY window(ts, '30 seconds') UNION ALL SELECT
window.start, product, sum(quantity) FROM orders GROUP BY window(ts, '10 seconds'), product UNION ALL SELECT ts, 'dear',
id FROM orders WHERE price > 98
-- oracle
SELECT w(ts, 30) AS s, 'all' AS what, count(*) AS n FROM orders GROUP BY 1 UNION ALL SELECT w(ts, 10), product,
sum(quantity) FROM orders GROUP BY 1, 2 UNION ALL SELECT ts, 'dear', id FROM orders WHERE price > 98

-- name: aggregate_over_union_all
SELECT window.start AS s, what, count(*) AS n, sum(x) AS total, max(x) AS most FROM (SELECT ts, product AS what,
quantity AS x FROM orders UNION ALL SELECT ts, site AS what, fee FROM orders WHERE express) AS u WHERE x > 1
GROUP BY window(ts, '30 seconds'), what
-- oracle
SELECT w(ts, 30) AS s, what, count(*) AS n, CAST(sum(x) AS DECIMAL(22,2)) AS total, max(x) AS most FROM (SELECT ts, product AS what,
CAST(quantity AS DECIMAL(12,2)) AS x FROM orders UNION ALL SELECT ts, site, CAST(fee AS DECIMAL(12,2)) FROM orders WHERE
express) AS u WHERE x > 1 GROUP BY 1, 2

-- name: over_aggregate
SELECT s, product, q * 2 AS twice FROM (SELECT window.start AS s, product, sum(quantity) AS q, count(*) AS n FROM orders
GROUP BY window(ts, '10 seconds'), product) AS d WHERE n > 5 AND q % 2 = 0
-- oracle
SELECT w(ts, 10) AS s, product, sum(quantity) * 2 AS twice FROM orders GROUP BY 1, 2 HAVING count(*) > 5 AND
sum(quantity) % 2 = 0

-- name: aggregate_over_aggregate
SELECT w.end AS e, site, max(n) AS most, count(*) AS products, avg(total) AS mean FROM (SELECT window(ts, '10 seconds') AS w,
site, product, count(*) AS n, sum(price) AS total FROM orders GROUP BY 1, 2, 3) AS d GROUP BY w, site HAVING count(*) > 1
-- oracle
SELECT w + INTERVAL 10 SECOND AS e, site, max(n) AS most, count(*) AS products, avg(total) AS mean FROM (SELECT
w(ts, 10) AS w, site, product, count(*) AS n, sum(price) AS total FROM orders GROUP BY 1, 2, 3) AS d GROUP BY w, site
HAVING count(*) > 1

-- name: top_k_over_aggregate
SELECT w.start AS s, product, q FROM (SELECT window(ts, '30 seconds') AS w, product, sum(quantity) AS q FROM orders
GROUP BY 1, 2) AS d WHERE q > 0 QUALIFY rank() OVER (PARTITION BY w ORDER BY q DESC) <= 2
-- oracle
SELECT s, product, q FROM (SELECT w(ts, 30) AS s, product, sum(quantity) AS q FROM orders GROUP BY 1, 2) AS d
WHERE q > 0 QUALIFY rank() OVER (PARTITION BY s ORDER BY q DESC NULLS LAST) <= 2

-- name: views
SELECT window.start AS s, k.label, sum(d.total) AS total FROM dear AS d JOIN labels AS k ON d.what = k.product
WHERE d.born <> 'asia' GROUP BY window(d.ts, '1 minute'), k.label
-- oracle
SELECT w(o.ts, 60) AS s, lower(p.category) AS label, sum(o.quantity * o.price) AS total FROM orders o JOIN products p
ON o.product = p.product WHERE o.price > 40 AND o.site <> 'asia' AND p.category <> 'B' GROUP BY 1, 2

-- name: view_of_windows
SELECT w.start AS s, max(n) AS most FROM per_product WHERE product <> 'x' GROUP BY w
-- oracle
SELECT s, max(n) AS most FROM (SELECT w(ts, 30) AS s, product, count(*) AS n FROM orders GROUP BY 1, 2) AS d
WHERE product <> 'x' GROUP BY s

-- name: join_of_windowed_aggregates
WITH sold AS (SELECT window(ts, '10 seconds') AS w, product, count(*) AS n, sum(price) AS total, avg(price) AS mean FROM
orders GROUP BY 1, 2), sent AS (SELECT window(ts, '10 seconds') AS w, product, count(*) AS m, max(fee) AS top FROM
parcels WHERE fee > 1 GROUP BY 1, 2)
SELECT sold.w.start AS s, sold.product, n, m, total, mean, top FROM sold JOIN sent
ON sold.w = sent.w AND sold.product = sent.product AND n > m
-- oracle
WITH sold AS (SELECT w(ts, 10) AS w, product, count(*) AS n, sum(price) AS total, avg(price) AS mean FROM orders GROUP BY
1, 2), sent AS (SELECT w(ts, 10) AS w, product, count(*) AS m, max(fee) AS top FROM parcels WHERE fee > 1 GROUP BY 1, 2)
SELECT sold.w AS s, sold.product, n, m, total, mean, top FROM sold JOIN sent ON
sold.w = sent.w AND sold.product = sent.product AND n > m

-- name: left_join_of_windowed_aggregates
SELECT a.window.end AS e, a.site, a.n, b.n AS fast, round(a.n / t.n, 6) AS share FROM (SELECT window, site, count(*) AS n
FROM orders GROUP BY window(ts, '20 seconds', '10 seconds'), site) AS a LEFT JOIN (SELECT window, site, count(*) AS n FROM
orders WHERE express AND site <> 'eu' GROUP BY window(ts, '20 seconds', '10 seconds'), site) AS b USING (window, site)
JOIN (SELECT window, count(*) AS n FROM orders GROUP BY window(ts, '20 seconds', '10 seconds')) AS t ON t.window = a.window
-- oracle
WITH o AS (SELECT *, w(ts, 10) - to_seconds(10 * unnest(range(2))) AS s FROM orders)
SELECT a.s + INTERVAL 20 SECOND AS e, a.site, a.n, b.n AS fast, round(a.n / t.n, 6) AS share FROM (SELECT s, site, count(*) AS
n FROM o GROUP BY 1, 2) AS a LEFT JOIN (SELECT s, site, count(*) AS n FROM o WHERE express AND site <> 'eu' GROUP BY 1, 2)
AS b ON a.s = b.s AND a.site = b.site JOIN (SELECT s, count(*) AS n FROM o GROUP BY 1) AS t ON t.s = a.s

-- name: join_of_views_of_windows
SELECT p.w.start AS s, p.product, p.n, q.most FROM per_product AS p JOIN (SELECT w, max(n) AS most FROM per_product GROUP
BY w) AS q ON p.w = q.w WHERE p.n = q.most
-- oracle
WITH p AS (SELECT w(ts, 30) AS s, product, count(*) AS n FROM orders GROUP BY 1, 2)
SELECT p.s, p.product, p.n, q.most FROM p JOIN (SELECT s, max(n) AS most FROM p GROUP BY s) AS q ON p.s = q.s WHERE
p.n = q.most

-- name: longer_windows
SELECT window.start AS s, window.end AS e, product, sum(n) AS n, max(n) AS most, min(w.start) AS first, avg(fee) AS fee
FROM (SELECT window(ts, '5 seconds') AS w, product, count(*) AS n, sum(fee) AS fee FROM orders GROUP BY w, product
HAVING count(*) > 2) AS d GROUP BY window(w.start, '30 seconds'), product
-- oracle
SELECT w(s, 30) AS s, w(s, 30) + INTERVAL 30 SECOND AS e, product, sum(n) AS n, max(n) AS most, min(s) AS first,
CAST(sum(fee) / count(fee) AS DECIMAL(24,6)) AS fee FROM (SELECT w(ts, 5) AS s, product, count(*) AS n, sum(fee) AS fee FROM
orders GROUP BY 1, 2 HAVING count(*) > 2) AS d GROUP BY 1, 2, 3

-- name: longer_windows_of_longer_windows
SELECT window(t, '1 minute').start AS m, max(n) AS most FROM (SELECT window(w, '20 seconds').start AS t, site, sum(n) AS n FROM
(SELECT window(ts, '10 seconds') AS w, site, product, count(DISTINCT quantity) AS n FROM orders GROUP BY 1, 2, 3 QUALIFY
row_number() OVER (PARTITION BY window(ts, '10 seconds'), site ORDER BY n DESC, product) <= 2) AS a GROUP BY 1, 2) AS b
GROUP BY 1
-- oracle
SELECT w(t, 60) AS m, max(n) AS most FROM
(SELECT w(w, 20) AS t, site, sum(n) AS n FROM (SELECT * FROM (SELECT w(ts, 10) AS w, site, product, count(DISTINCT quantity) AS
n FROM orders GROUP BY 1, 2, 3) QUALIFY row_number() OVER (PARTITION BY w, site ORDER BY n DESC, product) <= 2) AS a GROUP BY
1, 2) AS b GROUP BY 1

-- name: longer_windows_of_a_join
SELECT window.start AS s, sum(n) AS n, sum(coalesce(m, 0)) AS m FROM (SELECT a.w, a.product, n, m FROM (SELECT window(ts,
'10 seconds') AS w, product, count(*) AS n FROM orders GROUP BY 1, 2) AS a LEFT JOIN (SELECT window(ts, '10 seconds') AS w,
product, count(*) AS m FROM parcels WHERE fee > 4 GROUP BY 1, 2) AS b ON a.w = b.w AND a.product = b.product) AS d GROUP BY
window(w.start, '30 seconds')
-- oracle
SELECT w(a.w, 30) AS s, sum(n) AS n, sum(coalesce(m, 0)) AS m FROM (SELECT w(ts, 10) AS w, product, count(*) AS n FROM orders
GROUP BY 1, 2) AS a LEFT JOIN (SELECT w(ts, 10) AS w, product, count(*) AS m FROM parcels WHERE fee > 4 GROUP BY 1, 2) AS b ON
a.w = b.w AND a.product = b.product GROUP BY 1

-- name: aggregate_over_union_all_with_a_join_of_streams
SELECT window.start AS s, product, count(*) AS n, sum(x) AS total, avg(x) AS mean, count(DISTINCT x) AS xs FROM (SELECT ts,
product, fee AS x FROM orders WHERE express UNION ALL SELECT a.ts, a.product, p.fee FROM orders a LEFT JOIN parcels p ON
a.product = p.product AND a.id <> p.id AND window(a.ts, '10 seconds') = window(p.ts, '10 seconds') WHERE a.quantity > 7) AS u
GROUP BY window(ts, '10 seconds'), product
-- oracle
SELECT w(ts, 10) AS s, product, count(*) AS n, CAST(sum(x) AS DECIMAL(20,2)) AS total, CAST(sum(x) / count(x) AS DECIMAL(14,6)) AS mean,
count(DISTINCT x) AS xs FROM (SELECT ts, product, fee AS x FROM orders WHERE express UNION ALL SELECT a.ts, a.product, p.fee
FROM orders a LEFT JOIN parcels p ON a.product = p.product AND a.id <> p.id AND w(a.ts, 10) = w(p.ts, 10) WHERE a.quantity >
7) AS u GROUP BY 1, 2

-- name: settled_aggregates
SELECT window.start AS s, site, first(id) AS first, last(product) AS last, max_by(id, price) AS best, min_by(product, quantity)
AS least, mode(quantity) AS often, median(price) AS middle, percentile(quantity, 0.3) AS p30, bit_xor(id) AS bits, any(express) AS
some_of, every(express) AS all_of, skewness(price) AS skew, kurtosis(price) AS kurt, covar_samp(price, quantity) AS co,
regr_slope(price, quantity) AS slope, regr_r2(price, quantity) AS r2, try_sum(quantity) AS total, array_join(collect_set(quantity),
',') AS qs, listagg(CAST(id AS STRING), ',') FILTER (WHERE quantity > 7) AS ids, array_join(collect_list(id) FILTER (WHERE
quantity < 2), ',') AS few FROM orders GROUP BY window(ts, '10 seconds'), site HAVING size(collect_list(id)) > 1
-- oracle
SELECT w(ts, 10) AS s, site, (min({'t': ts, 'x': id})).x AS first, (max({'t': ts, 'x': product})).x AS last, (max({'y': price,
'x': id}) FILTER (price IS NOT NULL)).x AS best, (min({'y': quantity, 'x': product}) FILTER (quantity IS NOT NULL)).x AS least,
mode(quantity ORDER BY quantity) AS often, median(price) AS middle, quantile_cont(CAST(quantity AS DOUBLE), 0.3) AS p30, bit_xor(id)
AS bits, bool_or(express) AS some_of, bool_and(express) AS all_of, (avg(price ** 3) - 3 * avg(price) * avg(price ** 2) + 2 *
avg(price) ** 3) / var_pop(price) ** 1.5 AS skew, kurtosis_pop(price) AS kurt, covar_samp(price, quantity) AS co,
regr_slope(price, quantity) AS slope, regr_r2(price, quantity) AS r2, sum(quantity) AS total, array_to_string(list_sort(list(DISTINCT
quantity) FILTER (quantity IS NOT NULL)), ',') AS qs, string_agg(CAST(id AS VARCHAR), ',' ORDER BY ts, CAST(id AS VARCHAR)) FILTER
(quantity > 7) AS ids, coalesce(array_to_string(list(id ORDER BY ts, id) FILTER (quantity < 2), ','), '') AS few FROM orders GROUP BY
1, 2 HAVING count(*) > 1

-- name: settled_aggregates_of_a_join
SELECT window.start AS s, a.product, last(p.id) AS last, max_by(p.id, p.fee) AS best, median(p.fee) AS middle, count(*) AS n FROM
orders a JOIN parcels p ON a.product = p.product AND a.quantity > 7 AND window(a.ts, '10 seconds') = window(p.ts, '10 seconds')
GROUP BY window(a.ts, '10 seconds'), a.product
-- oracle
SELECT w(a.ts, 10) AS s, a.product, (max({'t': a.ts, 'x': p.id})).x AS last, (max({'y': p.fee, 'x': p.id}) FILTER (p.fee IS NOT
NULL)).x AS best, median(CAST(p.fee AS DOUBLE)) AS middle, count(*) AS n FROM orders a JOIN parcels p ON a.product = p.product AND
a.quantity > 7 AND w(a.ts, 10) = w(p.ts, 10) GROUP BY 1, 2

-- name: grouping_sets
SELECT window.start AS s, site, express, CAST(grouping_id() AS INT) AS g, count(*) AS n, sum(fee) AS fee, avg(price)
AS mean, count(DISTINCT quantity) AS q FROM orders GROUP BY window(ts, '10 seconds'), CUBE (site, express) HAVING count(*) > 2
-- oracle
SELECT w(ts, 10) AS s, site, express, CAST(GROUPING(site, express) AS INTEGER) AS g, count(*) AS n, CAST(sum(fee) AS DECIMAL(20,2))
AS fee, avg(price) AS mean, count(DISTINCT quantity) AS q FROM orders GROUP BY 1, CUBE (site, express) HAVING count(*) > 2

-- name: rows_of_a_generator
SELECT id, part FROM (SELECT id, explode(array(product, site, upper(site))) AS part FROM orders WHERE quantity > 7) AS d
WHERE part >= 'a' AND part <> 'eu'
-- oracle
SELECT id, part FROM (SELECT id, unnest([product, site, upper(site)]) AS part FROM orders WHERE quantity > 7) AS d
WHERE part >= 'a' AND part <> 'eu'

-- name: joined_rows_of_a_generator
SELECT window.start AS s, n.category, t.again, count(*) AS n FROM (SELECT ts, quantity, explode_outer(if(express, array(product,
upper(product)), array())) AS p FROM orders WHERE price > 10) AS d LEFT JOIN products AS n ON n.product = d.p
LATERAL VIEW explode(array(1, quantity)) t AS again WHERE d.quantity < 3 GROUP BY window(ts, '30 seconds'), n.category, t.again
-- oracle
SELECT w(ts, 30) AS s, n.category, again, count(*) AS n FROM (SELECT *, unnest([1, quantity]) AS again FROM (SELECT ts, quantity,
unnest(CASE WHEN express THEN [product, upper(product)] ELSE [NULL] END) AS p FROM orders WHERE price > 10)) AS d LEFT JOIN products
AS n ON n.product = d.p WHERE d.quantity < 3 GROUP BY 1, 2, 3

-- name: in_and_exists
SELECT window.start AS s, o.product, count(*) AS n FROM orders AS o WHERE o.product IN (SELECT product FROM products WHERE
category <> 'A') AND o.quantity NOT IN (SELECT CAST(amount AS INT) FROM stock WHERE amount < 5) AND NOT EXISTS (SELECT 1 FROM
recalls AS r WHERE r.product = o.product) GROUP BY window(ts, '30 seconds'), o.product
-- oracle
SELECT w(ts, 30) AS s, o.product, count(*) AS n FROM orders AS o WHERE o.product IN (SELECT product FROM products WHERE
category <> 'A') AND o.quantity NOT IN (SELECT CAST(amount AS INT) FROM stock WHERE amount < 5) AND NOT EXISTS (SELECT 1 FROM
recalls AS r WHERE r.product = o.product) GROUP BY 1, 2

-- name: anti_join
SELECT o.id, o.site FROM orders AS o LEFT ANTI JOIN stock AS k ON k.product = o.product AND k.site = o.site AND k.amount >
o.quantity WHERE o.quantity > 7
-- oracle
SELECT o.id, o.site FROM orders AS o ANTI JOIN stock AS k ON k.product = o.product AND k.site = o.site AND k.amount >
o.quantity WHERE o.quantity > 7

-- name: table_first_and_ranges
SELECT window.start AS s, n.category, count(*) AS n FROM products AS n JOIN orders AS o ON o.product = n.product JOIN stock AS k
ON k.amount BETWEEN o.quantity AND o.quantity + 1 AND k.site = o.site WHERE o.express GROUP BY window(o.ts, '30 seconds'), n.category
-- oracle
SELECT w(o.ts, 30) AS s, n.category, count(*) AS n FROM products AS n JOIN orders AS o ON o.product = n.product JOIN stock AS k
ON k.amount BETWEEN o.quantity AND o.quantity + 1 AND k.site = o.site WHERE o.express GROUP BY 1, 2

-- name: sessions
SELECT session_window.start AS s, session_window.end AS e, product, count(*) AS n, CAST(sum(fee) AS DECIMAL(20,2)) AS fee, count(DISTINCT
quantity) AS q, max_by(id, ts) AS last FROM orders WHERE express GROUP BY session_window(ts, '3 seconds'), product
-- oracle
SELECT min(ts) AS s, max(ts) + INTERVAL 3 SECOND AS e, product, count(*) AS n, CAST(sum(fee) AS DECIMAL(20,2)) AS fee, count(DISTINCT
quantity) AS q, max({'t': ts, 'i': id}).i AS last FROM (SELECT *, sum(b) OVER (PARTITION BY product ORDER BY ts, id) AS session FROM
(SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY product ORDER BY ts, id) <= INTERVAL 3 SECOND THEN 0 ELSE 1 END AS b FROM orders
WHERE express)) GROUP BY product, session

-- name: sessions_without_keys
SELECT session_window.start AS s, session_window.end AS e, count(*) AS n FROM orders WHERE quantity > 7 AND price > 20 GROUP BY
session_window(ts, '1 second')
-- oracle
SELECT min(ts) AS s, max(ts) + INTERVAL 1 SECOND AS e, count(*) AS n FROM (SELECT *, sum(b) OVER (ORDER BY ts, id) AS
session FROM (SELECT *, CASE WHEN ts - lag(ts) OVER (ORDER BY ts, id) <= INTERVAL 1 SECOND THEN 0 ELSE 1 END AS b FROM orders WHERE
quantity > 7 AND price > 20)) GROUP BY session

-- name: sessions_with_gaps_of_their_rows
SELECT k, z, e, n, price FROM (SELECT nullif(quantity % 3, 0) AS k, 0.0D * (quantity - 4) AS z, session_window.end AS e, count(*) AS n,
avg(price) AS price FROM orders GROUP BY session_window(ts, CASE WHEN express THEN '300 milliseconds' WHEN quantity = 5 THEN
'0 seconds' WHEN product > 'p6' THEN '2 seconds' ELSE '100 milliseconds' END), nullif(quantity % 3, 0), 0.0D * (quantity - 4) HAVING count(*) > 2) AS d
WHERE price < 60
-- oracle
WITH r AS (SELECT *, nullif(quantity % 3, 0) AS k, CAST(0 * quantity AS DOUBLE) AS z, ts + gap AS e FROM (SELECT *, CASE WHEN express THEN
INTERVAL 300 MILLISECOND WHEN quantity = 5 THEN INTERVAL 0 SECOND WHEN product > 'p6' THEN INTERVAL 2 SECOND ELSE INTERVAL 100 MILLISECOND
END AS gap FROM orders) WHERE gap > INTERVAL 0 SECOND), b AS (SELECT *, CASE WHEN ts <= max(e) OVER (PARTITION BY k, z ORDER BY ts, id ROWS
BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS b FROM r), i AS (SELECT *, sum(b) OVER (PARTITION BY k, z ORDER BY ts, id)
AS session FROM b) SELECT k, z, max(e) AS e, count(*) AS n, avg(price) AS price FROM i GROUP BY k, z, session HAVING count(*) > 2 AND
avg(price) < 60

-- name: sessions_of_a_union
SELECT session_window.start AS s, session_window.end AS e, product, sum(one) AS n FROM (SELECT ts, product, 1 AS one FROM orders WHERE
quantity = 1 UNION ALL SELECT ts, product, 10 AS one FROM parcels) AS u JOIN products AS p USING (product) GROUP BY session_window(ts,
'1 second'), product
-- oracle
WITH u AS (SELECT ts, product, 1 AS one, id FROM orders WHERE quantity = 1 UNION ALL SELECT ts, product, 10 AS one, id FROM parcels), b AS
(SELECT u.*, CASE WHEN ts - lag(ts) OVER (PARTITION BY product ORDER BY ts, one, u.id) <= INTERVAL 1 SECOND THEN 0 ELSE 1 END AS b FROM u
JOIN products AS p USING (product)), i AS (SELECT *, sum(b) OVER (PARTITION BY product ORDER BY ts, one, id) AS session FROM b) SELECT
min(ts) AS s, max(ts) + INTERVAL 1 SECOND AS e, product, sum(one) AS n FROM i GROUP BY product, session

-- name: pairs_within_an_interval
SELECT a.id, p.id AS parcel, p.fee, p.ts FROM orders a JOIN parcels p ON a.product = p.product AND p.fee > 4.5 AND a.quantity > 6 AND p.ts
BETWEEN a.ts - INTERVAL '1 second' AND a.ts + INTERVAL '3 seconds' WHERE a.id <> p.id
-- oracle
SELECT a.id, p.id AS parcel, p.fee, p.ts FROM orders a JOIN parcels p ON a.product = p.product AND p.fee > 4.5 AND a.quantity > 6 AND p.ts
BETWEEN a.ts - INTERVAL '1 second' AND a.ts + INTERVAL '3 seconds' WHERE a.id <> p.id

-- name: rows_without_a_match_until_an_instant_of_their_own
SELECT o.id, o.until, p.id AS parcel FROM parcels p RIGHT JOIN (SELECT id, product, ts, ts + CASE WHEN quantity > 3 THEN INTERVAL '2 seconds' ELSE INTERVAL
'500 milliseconds' END AS until FROM orders WHERE express) AS o ON o.product = p.product AND p.ts > o.ts AND p.ts <= o.until AND p.fee < 2
-- oracle
SELECT o.id, o.until, p.id AS parcel FROM parcels p RIGHT JOIN (SELECT id, product, ts, ts + CASE WHEN quantity > 3 THEN INTERVAL '2 seconds' ELSE INTERVAL
'500 milliseconds' END AS until FROM orders WHERE express) AS o ON o.product = p.product AND p.ts > o.ts AND p.ts <= o.until AND p.fee < 2

-- name: full_join_within_an_interval
SELECT a.id, b.id AS other FROM (SELECT * FROM orders WHERE quantity > 6) AS a FULL JOIN (SELECT * FROM parcels WHERE fee < 1) AS b ON a.product =
b.product AND a.fee > b.fee AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1 second'
-- oracle
SELECT a.id, b.id AS other FROM (SELECT * FROM orders WHERE quantity > 6) AS a FULL JOIN (SELECT * FROM parcels WHERE fee < 1) AS b ON a.product =
b.product AND a.fee > b.fee AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1 second'

-- name: rows_with_a_match_within_an_interval
SELECT id, product FROM orders o WHERE EXISTS (SELECT 1 FROM parcels p WHERE p.product = o.product AND p.ts BETWEEN o.ts - INTERVAL '2 seconds' AND o.ts
+ INTERVAL '2 seconds' AND p.fee > o.fee) AND price > 20
-- oracle
SELECT id, product FROM orders o WHERE EXISTS (SELECT 1 FROM parcels p WHERE p.product = o.product AND p.ts BETWEEN o.ts - INTERVAL '2 seconds' AND o.ts
+ INTERVAL '2 seconds' AND p.fee > o.fee) AND price > 20

-- name: rows_without_a_match_within_an_interval
SELECT o.id, o.ts FROM orders o ANTI JOIN parcels p ON p.product = o.product AND p.ts >= o.ts AND p.ts < o.ts + INTERVAL '5 seconds' AND p.fee > o.fee
-- oracle
SELECT o.id, o.ts FROM orders o ANTI JOIN parcels p ON p.product = o.product AND p.ts >= o.ts AND p.ts < o.ts + INTERVAL '5 seconds' AND p.fee > o.fee

-- name: groups_of_pairs
SELECT window(p.ts, '10 seconds').start AS s, o.product, count(*) AS n, max(p.fee) AS most, count(DISTINCT o.site) AS sites FROM orders o JOIN parcels p
ON p.product = o.product AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1 second' JOIN products c ON c.product = p.product GROUP BY window(p.ts, '10 seconds'), o.product HAVING count(*) > 1
-- oracle
SELECT w(p.ts, 10) AS s, o.product, count(*) AS n, max(p.fee) AS most, count(DISTINCT o.site) AS sites FROM orders o JOIN parcels p
ON p.product = o.product AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1 second' JOIN products c ON c.product = p.product GROUP BY 1, 2 HAVING count(*) > 1

-- name: three_streams_within_intervals
SELECT o.id, p.id AS parcel, b.id AS next FROM orders o JOIN parcels p ON p.product = o.product AND o.quantity = 1 AND p.ts BETWEEN o.ts AND o.ts + INTERVAL
'2 seconds' LEFT JOIN orders b ON b.product = p.product AND b.express AND b.ts > p.ts AND b.ts <= p.ts + INTERVAL '200 milliseconds'
-- oracle
SELECT o.id, p.id AS parcel, b.id AS next FROM orders o JOIN parcels p ON p.product = o.product AND o.quantity = 1 AND p.ts BETWEEN o.ts AND o.ts + INTERVAL
'2 seconds' LEFT JOIN orders b ON b.product = p.product AND b.express AND b.ts > p.ts AND b.ts <= p.ts + INTERVAL '200 milliseconds'

-- name: best_match_of_each_row
SELECT o.id, o.until, p.id AS parcel, p.fee FROM parcels p JOIN (SELECT id, product, ts, ts + INTERVAL '3 seconds' * quantity AS until FROM orders WHERE express)
AS o ON o.product = p.product AND p.ts BETWEEN o.ts AND o.until QUALIFY row_number() OVER (PARTITION BY o.id, o.until ORDER BY p.fee DESC NULLS LAST, p.id) = 1
-- oracle
SELECT o.id, o.until, p.id AS parcel, p.fee FROM parcels p JOIN (SELECT id, product, ts, ts + INTERVAL '3 seconds' * quantity AS until FROM orders WHERE express)
AS o ON o.product = p.product AND p.ts BETWEEN o.ts AND o.until QUALIFY row_number() OVER (PARTITION BY o.id, o.until ORDER BY p.fee DESC NULLS LAST, p.id) = 1

-- name: first_rows_of_a_window
SELECT window(ts, '10 seconds').end AS e, id, product, price FROM orders QUALIFY rank() OVER (PARTITION BY window(ts, '10 seconds'), product ORDER BY price DESC NULLS LAST) <= 2
-- oracle
SELECT w(ts, 10) + INTERVAL 10 SECOND AS e, id, product, price FROM orders QUALIFY rank() OVER (PARTITION BY w(ts, 10), product ORDER BY price DESC NULLS LAST) <= 2

-- name: first_of_joined_rows
SELECT window(o.ts, '10 seconds').start AS s, o.product, o.id, p.id AS parcel FROM orders o LEFT JOIN parcels p ON p.product = o.product AND p.fee > 4.5
AND window(o.ts, '10 seconds') = window(p.ts, '10 seconds') QUALIFY row_number() OVER (PARTITION BY window(o.ts, '10 seconds'), o.product ORDER BY o.price DESC NULLS LAST,
o.id, p.id) <= 2
-- oracle
SELECT w(o.ts, 10) AS s, o.product, o.id, p.id AS parcel FROM orders o LEFT JOIN parcels p ON p.product = o.product AND p.fee > 4.5
AND w(o.ts, 10) = w(p.ts, 10) QUALIFY row_number() OVER (PARTITION BY w(o.ts, 10), o.product ORDER BY o.price DESC NULLS LAST, o.id, p.id NULLS FIRST) <= 2

-- name: groups_by_instants
SELECT ts, count(*) AS n, min(id) AS first FROM orders WHERE quantity > 4 GROUP BY ts
-- oracle
SELECT ts, count(*) AS n, min(id) AS first FROM orders WHERE quantity > 4 GROUP BY 1

-- name: first_row_of_each_chain
SELECT id, ts, product FROM orders WHERE quantity > 5 QUALIFY row_number() OVER (PARTITION BY product ORDER BY ts, id) = 1 WITHIN INTERVAL '2 seconds'
-- oracle
SELECT id, ts, product FROM orders WHERE quantity > 5 QUALIFY lag(ts) OVER (PARTITION BY product ORDER BY ts, id) IS NULL OR
ts - lag(ts) OVER (PARTITION BY product ORDER BY ts, id) > INTERVAL 2 SECOND

-- name: last_row_of_each_chain
SELECT session_window.end AS e, id, product FROM orders WHERE express QUALIFY row_number() OVER (PARTITION BY session_window(ts, '3 seconds'), product
ORDER BY ts DESC, id DESC) = 1
-- oracle
SELECT ts + INTERVAL 3 SECOND AS e, id, product FROM orders WHERE express QUALIFY lead(ts) OVER (PARTITION BY product ORDER BY ts, id) IS NULL OR
lead(ts) OVER (PARTITION BY product ORDER BY ts, id) - ts > INTERVAL 3 SECOND

-- name: distinct_rows_of_chains
SELECT DISTINCT product, express FROM parcels JOIN products USING (product) JOIN (SELECT product AS p, site = 'us' AS express FROM stock) AS k ON k.p = product
WITHIN INTERVAL '1 second'
-- oracle
WITH r AS (SELECT c.product, k.site = 'us' AS express, c.ts, c.id FROM parcels c JOIN products USING (product) JOIN stock k ON k.product = c.product) SELECT
product, express FROM r QUALIFY lag(ts) OVER (PARTITION BY product, express ORDER BY ts, id) IS NULL OR ts - lag(ts) OVER (PARTITION BY product, express
ORDER BY ts, id) > INTERVAL 1 SECOND

-- name: newest_parcel_before
SELECT o.id, o.price, p.id AS parcel FROM orders o LEFT ASOF JOIN parcels p MATCH_CONDITION (o.ts > p.ts) ON p.product = o.product AND p.id % 3 > 0
-- oracle
SELECT o.id, o.price, p.id AS parcel FROM orders o ASOF LEFT JOIN (SELECT product, ts, max(id) AS id FROM parcels WHERE id % 3 > 0 GROUP BY 1, 2) p
ON p.product = o.product AND o.ts > p.ts

-- name: orders_of_newest_parcels
SELECT window(o.ts, '10 seconds').start AS s, p.id, c.category, count(*) AS n FROM orders o JOIN parcels FOR SYSTEM_TIME AS OF o.ts AS p ON p.product = o.product
JOIN products c ON c.product = o.product WHERE o.quantity > 2 GROUP BY window(o.ts, '10 seconds'), p.id, c.category
-- oracle
SELECT w(o.ts, 10) AS s, p.id, c.category, count(*) AS n FROM orders o ASOF JOIN (SELECT product, ts, max(id) AS id FROM parcels GROUP BY 1, 2) p
ON p.product = o.product AND o.ts >= p.ts JOIN products c ON c.product = o.product WHERE o.quantity > 2 GROUP BY 1, 2, 3

-- name: totals_that_change
SELECT product, count(*) AS n, sum(quantity) AS q, round(avg(price), 6) AS p, max_by(id, price) AS top FROM orders WHERE quantity > 1 GROUP BY product
EMIT EVERY INTERVAL '5 seconds'
-- oracle
WITH c AS (SELECT product, w(ts, 5) AS c, count(*) AS n FROM orders WHERE quantity > 1 GROUP BY 1, 2) SELECT c.product, count(*) AS n, sum(o.quantity) AS q,
round(avg(o.price), 6) AS p, max_by(o.id, o.price) AS top, 'upsert' AS _op, c.c + INTERVAL 5 SECOND AS _at FROM c JOIN orders o ON o.product = c.product
AND o.quantity > 1 AND o.ts < c.c + INTERVAL 5 SECOND GROUP BY c.product, c.c

-- name: total_of_all_rows
SELECT count(*) AS n, count_if(express) AS fast, approx_count_distinct(product) AS products FROM orders EMIT EVERY INTERVAL 10 SECONDS
-- oracle
WITH c AS (SELECT DISTINCT w(ts, 10) AS c FROM orders) SELECT count(*) AS n, count_if(o.express) AS fast, count(DISTINCT o.product) AS products, 'upsert' AS _op,
c.c + INTERVAL 10 SECOND AS _at FROM c JOIN orders o ON o.ts < c.c + INTERVAL 10 SECOND GROUP BY c.c

-- name: totals_that_are_deleted
SELECT p.product, c.category, count(*) AS n FROM parcels p JOIN products c ON p.product = c.product WHERE p.id % 7 = 0 GROUP BY p.product, c.category
HAVING count(*) % 3 <> 0 EMIT EVERY INTERVAL '1 second' STATE TTL INTERVAL '3 seconds'
-- oracle
WITH c AS (SELECT product, category, w(ts, 1) AS c, count(*) AS n FROM parcels JOIN products USING (product) WHERE id % 7 = 0 GROUP BY 1, 2, 3),
g AS (SELECT *, c - lag(c) OVER (PARTITION BY product ORDER BY c) AS gap FROM c),
l AS (SELECT *, sum(CASE WHEN gap < INTERVAL 4 SECOND THEN 0 ELSE 1 END) OVER (PARTITION BY product ORDER BY c) AS life FROM g),
t AS (SELECT product, category, c, life, sum(n) OVER k AS n, lag(c) OVER k IS NULL AS first FROM l WINDOW k AS (PARTITION BY product, life ORDER BY c))
SELECT product, category, n, CASE WHEN n % 3 <> 0 THEN 'upsert' ELSE 'delete' END AS _op, c + INTERVAL 1 SECOND AS _at FROM t QUALIFY n % 3 <> 0 OR first
OR lag(n) OVER (PARTITION BY product, life ORDER BY c) % 3 <> 0

-- name: early_results_of_windows
SELECT window.start AS s, express, count(DISTINCT product) AS products, median(price) AS mid FROM orders GROUP BY window(ts, '20 seconds', '20 seconds', '5 seconds'), express
HAVING count(*) > 20 EMIT EVERY INTERVAL '5 seconds'
-- oracle
WITH c AS (SELECT w(ts - INTERVAL 5 SECOND, 20) + INTERVAL 5 SECOND AS s, express, w(ts, 5) AS c FROM orders GROUP BY 1, 2, 3) SELECT c.s, c.express,
count(DISTINCT o.product) AS products, median(o.price) AS mid, 'upsert' AS _op, c.c + INTERVAL 5 SECOND AS _at FROM c JOIN orders o
ON o.express IS NOT DISTINCT FROM c.express AND o.ts >= c.s AND o.ts < c.c + INTERVAL 5 SECOND GROUP BY c.s, c.express, c.c HAVING count(*) > 20

-- name: newest_order_of_each_product
SELECT * FROM orders QUALIFY row_number() OVER (PARTITION BY product ORDER BY ts DESC, id DESC) = 1 EMIT EVERY INTERVAL '10 seconds'
-- oracle
SELECT *, 'upsert' AS _op, w(ts, 10) + INTERVAL 10 SECOND AS _at FROM (SELECT id, ts, product, quantity, price, fee, express FROM orders) QUALIFY row_number() OVER
(PARTITION BY product, w(ts, 10) ORDER BY ts DESC, id DESC) = 1

-- name: ranks_that_change
SELECT id, category, fee, row_number() OVER (PARTITION BY category ORDER BY fee DESC NULLS LAST, id) AS place FROM parcels JOIN products USING (product)
QUALIFY place <= 3 EMIT EVERY INTERVAL '2 seconds'
-- oracle
WITH r AS (SELECT id, ts, category, fee FROM parcels JOIN products USING (product)), c AS (SELECT DISTINCT category, w(ts, 2) AS c FROM r),
t AS (SELECT r.id, r.category, r.fee, c.c, row_number() OVER (PARTITION BY r.category, c.c ORDER BY fee DESC NULLS LAST, id) AS place FROM c JOIN r
ON r.category = c.category AND r.ts < c.c + INTERVAL 2 SECOND QUALIFY place <= 3) SELECT id, category, fee, CAST(place AS INT) AS place, 'upsert' AS _op, c + INTERVAL 2 SECOND AS _at
FROM t QUALIFY id IS DISTINCT FROM lag(id) OVER (PARTITION BY category, place ORDER BY c)

-- name: totals_of_pairs
SELECT o.product, date_trunc('minute', o.ts) AS minute, count(*) AS n, max(p.fee) AS most FROM orders o JOIN parcels p ON p.product = o.product AND
p.ts BETWEEN o.ts AND o.ts + INTERVAL '500 milliseconds' WHERE o.quantity > 3 GROUP BY o.product, minute EMIT EVERY INTERVAL '10 seconds'
-- oracle
WITH r AS (SELECT o.product, date_trunc('minute', o.ts) AS minute, o.ts, p.fee FROM orders o JOIN parcels p ON p.product = o.product AND p.ts BETWEEN o.ts AND
o.ts + INTERVAL '500 milliseconds' WHERE o.quantity > 3), c AS (SELECT DISTINCT product, minute, w(ts, 10) AS c FROM r) SELECT c.product, c.minute, count(*) AS n,
max(r.fee) AS most, 'upsert' AS _op, c.c + INTERVAL 10 SECOND AS _at FROM c JOIN r ON r.product = c.product AND r.minute = c.minute AND r.ts < c.c + INTERVAL
10 SECOND GROUP BY c.product, c.minute, c.c

-- name: totals_of_windows
SELECT express, sum(n) AS n, max(n) AS most FROM (SELECT express, product, window.end AS e, count(*) AS n FROM orders GROUP BY express, product, window(ts, '5 seconds'))
WHERE n > 2 GROUP BY express EMIT EVERY INTERVAL '10 seconds'
-- oracle
WITH r AS (SELECT express, w(ts, 5) + INTERVAL 5 SECOND AS e, count(*) AS n FROM orders GROUP BY express, product, 2 HAVING count(*) > 2),
c AS (SELECT DISTINCT express, w(e, 10) AS c FROM r) SELECT c.express, CAST(sum(r.n) AS BIGINT) AS n, max(r.n) AS most, 'upsert' AS _op,
c.c + INTERVAL 10 SECOND AS _at FROM c JOIN r ON r.express IS NOT DISTINCT FROM c.express AND r.e < c.c + INTERVAL 10 SECOND GROUP BY c.express, c.c

-- name: totals_of_best_matches
SELECT express, count(*) AS n, sum(fee) AS fees FROM (SELECT o.express, o.until, p.fee FROM parcels p JOIN (SELECT id, product, ts, express, ts + INTERVAL '3 seconds'
* quantity AS until FROM orders WHERE quantity < 3) AS o ON o.product = p.product AND p.ts BETWEEN o.ts AND o.until QUALIFY row_number() OVER (PARTITION BY o.id, o.until
ORDER BY p.fee DESC NULLS LAST, p.id) = 1) GROUP BY express EMIT EVERY INTERVAL '10 seconds'
-- oracle
WITH r AS (SELECT o.express, o.until, p.fee FROM parcels p JOIN (SELECT id, product, ts, express, ts + INTERVAL '3 seconds' * quantity AS until FROM orders WHERE quantity < 3)
AS o ON o.product = p.product AND p.ts BETWEEN o.ts AND o.until QUALIFY row_number() OVER (PARTITION BY o.id, o.until ORDER BY p.fee DESC NULLS LAST, p.id) = 1),
c AS (SELECT DISTINCT express, w(until, 10) AS c FROM r) SELECT c.express, count(*) AS n, CAST(sum(r.fee) AS DECIMAL(20, 2)) AS fees, 'upsert' AS _op,
c.c + INTERVAL 10 SECOND AS _at FROM c JOIN r ON r.express IS NOT DISTINCT FROM c.express AND r.until < c.c + INTERVAL 10 SECOND GROUP BY c.express, c.c

-- name: rows_before_a_row
SELECT id, ts, product, quantity, avg(quantity) OVER (PARTITION BY product ORDER BY ts, id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS mean,
lag(id, 2) OVER (PARTITION BY product ORDER BY ts, id) AS before, count(*) FILTER (WHERE express) OVER (PARTITION BY product ORDER BY ts, id ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)
AS fast FROM orders WHERE id % 3 = 0
-- oracle
SELECT id, ts, product, quantity, avg(quantity) OVER (PARTITION BY product ORDER BY ts, id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS mean,
lag(id, 2) OVER (PARTITION BY product ORDER BY ts, id) AS before, count(*) FILTER (WHERE express) OVER (PARTITION BY product ORDER BY ts, id ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)
AS fast FROM orders WHERE id % 3 = 0

-- name: time_before_a_row
SELECT p.id, c.category, sum(fee) OVER (PARTITION BY c.category ORDER BY p.ts RANGE BETWEEN INTERVAL '2 seconds' PRECEDING AND CURRENT ROW) AS fees,
count(*) OVER (PARTITION BY c.category ORDER BY p.ts RANGE BETWEEN INTERVAL '500 milliseconds' PRECEDING AND CURRENT ROW) AS n
FROM parcels p JOIN products c ON c.product = p.product
-- oracle
SELECT p.id, c.category, CAST(sum(fee) OVER (PARTITION BY c.category ORDER BY p.ts RANGE BETWEEN INTERVAL '2 seconds' PRECEDING AND CURRENT ROW) AS DECIMAL(20, 2)) AS fees,
count(*) OVER (PARTITION BY c.category ORDER BY p.ts RANGE BETWEEN INTERVAL '500 milliseconds' PRECEDING AND CURRENT ROW) AS n
FROM parcels p JOIN products c ON c.product = p.product

-- name: windows_that_grew
SELECT express, s, n, before FROM (SELECT express, s, n, lag(n) OVER (PARTITION BY express ORDER BY e) AS before FROM (SELECT express, window.start AS s, window.end AS e,
count(*) AS n FROM orders GROUP BY express, window(ts, '5 seconds'))) WHERE n > before
-- oracle
SELECT express, s, n, before FROM (SELECT express, s, n, lag(n) OVER (PARTITION BY express ORDER BY s) AS before FROM (SELECT express, w(ts, 5) AS s, count(*) AS n
FROM orders GROUP BY 1, 2)) WHERE n > before

-- name: rows_before_of_two_streams
SELECT id, kind, lag(kind) OVER (PARTITION BY product ORDER BY ts, kind, id) AS before FROM (SELECT id, ts, product, 'order' AS kind FROM orders WHERE id % 5 = 0
UNION ALL SELECT id, ts, product, 'parcel' AS kind FROM parcels WHERE id % 5 = 0)
-- oracle
SELECT id, kind, lag(kind) OVER (PARTITION BY product ORDER BY ts, kind, id) AS before FROM (SELECT id, ts, product, 'order' AS kind FROM orders WHERE id % 5 = 0
UNION ALL SELECT id, ts, product, 'parcel' AS kind FROM parcels WHERE id % 5 = 0)

-- name: groups_of_a_table
SELECT o.id, s.most, s.n FROM orders o LEFT JOIN (SELECT product, max(amount) AS most, count(*) AS n, avg(amount) AS mean FROM stock WHERE amount > 1 GROUP BY product
HAVING count(*) > 0) AS s ON s.product = o.product AND s.mean > 2 WHERE o.quantity > 6
-- oracle
SELECT o.id, s.most, s.n FROM orders o LEFT JOIN (SELECT product, max(amount) AS most, count(*) AS n, avg(amount) AS mean FROM stock WHERE amount > 1 GROUP BY product
HAVING count(*) > 0) AS s ON s.product = o.product AND s.mean > 2 WHERE o.quantity > 6

-- name: values_of_tables
SELECT *, (SELECT sum(amount) FROM stock WHERE stock.product = orders.product) AS amount, quantity + (SELECT count(*) FROM products WHERE products.product = orders.product
AND category <> 'B') AS n FROM orders WHERE quantity * 30 > (SELECT avg(amount) FROM stock) AND product NOT IN (SELECT product FROM recalls)
-- oracle
SELECT o.* EXCLUDE (site), CAST((SELECT sum(amount) FROM stock WHERE stock.product = o.product) AS BIGINT) AS amount, quantity + (SELECT count(*) FROM products
WHERE products.product = o.product AND category <> 'B') AS n FROM orders o WHERE quantity * 30 > (SELECT avg(amount) FROM stock) AND product NOT IN (SELECT product FROM recalls)

-- name: values_of_no_rows
SELECT id, (SELECT coalesce(max(amount), -1) + count(amount) FROM stock WHERE stock.product = orders.product AND amount > 8) AS most, (SELECT 100 * approx_count_distinct(category)
- count_if(category = 'B') FROM products WHERE products.product = orders.product AND category <> 'A') AS n, (SELECT coalesce(sum(amount), -5) FROM stock WHERE amount < 0) AS missing FROM orders
-- oracle
SELECT id, (SELECT coalesce(max(amount), -1) + count(amount) FROM stock WHERE stock.product = o.product AND amount > 8) AS most, (SELECT 100 * count(DISTINCT category)
- count(*) FILTER (WHERE category = 'B') FROM products WHERE products.product = o.product AND category <> 'A') AS n, CAST(-5 AS BIGINT) AS missing FROM orders o

-- name: windows_beyond_a_value
SELECT window.start AS s, c.category, count(*) AS n FROM orders o JOIN (SELECT product, min(category) AS category FROM products GROUP BY product) AS c ON c.product = o.product
WHERE o.price > (SELECT min(amount) FROM stock WHERE amount > 8) GROUP BY window(ts, '10 seconds'), c.category
-- oracle
SELECT w(ts, 10) AS s, c.category, count(*) AS n FROM orders o JOIN products c ON c.product = o.product WHERE o.price > (SELECT min(amount) FROM stock WHERE amount > 8) GROUP BY 1, 2
