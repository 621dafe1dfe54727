-- Queries of the oracle tests: in Selat's SQL, then in DuckDB's over all the input at once.
-- In the oracle `orders` has the column `site`, and `w(ts, n)` is the start of ts's window of n seconds.

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
SELECT w(ts, 60) + INTERVAL 60 SECOND AS e, sum(fee) AS fees, max(fee) AS top, round(avg(fee), 4) AS mean FROM orders GROUP BY 1

-- name: having
SELECT window.start AS s, product, sum(quantity) AS q FROM orders WHERE price > 10 GROUP BY window(ts, '10
seconds'), product HAVING sum(quantity) > 50 AND count(*) > 5
-- oracle
SELECT w(ts, 10) AS s, product, sum(quantity) AS q FROM orders WHERE price > 10 GROUP BY 1, 2 HAVING
sum(quantity) > 50 AND count(*) > 5

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
SELECT length(product) + quantity % 2 AS k, w(ts, 60) AS s, sum(price) / count(*) + 1 AS x FROM orders WHERE
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
