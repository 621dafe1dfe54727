-- The questions of NEXMark's queries, asked of DuckDB over all rows of all sites; times are UTC.

-- q0
SELECT auction, bidder, price, dateTime, extra FROM bid

-- q1
SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid

-- q2
SELECT auction, price FROM bid WHERE auction % 123 = 0

-- q5
SELECT auction, num FROM (
  SELECT auction, epoch_us(dateTime) // 2000000 - step AS cell, count(*) AS num FROM bid, range(5) AS t(step) GROUP BY ALL
) QUALIFY rank() OVER (PARTITION BY cell ORDER BY num DESC) = 1

-- q7
SELECT auction, price, bidder, dateTime, extra FROM bid
QUALIFY rank() OVER (PARTITION BY epoch_us(dateTime) // 10000000 ORDER BY price DESC) = 1

-- q8
WITH p AS (SELECT DISTINCT id, name, time_bucket(INTERVAL '10 seconds', dateTime) AS w FROM person),
a AS (SELECT DISTINCT seller, time_bucket(INTERVAL '10 seconds', dateTime) AS w FROM auction)
SELECT p.id, p.name, p.w FROM p JOIN a ON p.id = a.seller AND p.w = a.w

-- q10
SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d'), strftime(dateTime, '%H:%M') FROM bid

-- q11
SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL '10 seconds' FROM (
  SELECT bidder, dateTime, sum(begins) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS session
  FROM (
    SELECT bidder, dateTime, CASE WHEN dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
      <= INTERVAL '10 seconds' THEN 0 ELSE 1 END AS begins
    FROM bid
  )
) GROUP BY bidder, session

-- q12
-- A generated row arrives when it is born, and `dateTime` of `bid` is just that.
SELECT bidder, count(*), w, w + INTERVAL '10 seconds'
FROM (SELECT bidder, time_bucket(INTERVAL '10 seconds', dateTime) AS w FROM bid) GROUP BY bidder, w

-- q13
SELECT auction, bidder, price, dateTime, 'value-' || (auction % 10000) FROM bid

-- q14
SELECT auction, bidder, 0.908 * price,
  CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) IN (7, 19) THEN 'otherTime' ELSE 'nightTime' END,
  dateTime, extra, length(extra) - length(replace(extra, 'c', ''))
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000

-- q15
SELECT strftime(dateTime, '%Y-%m-%d'),
  count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000),
  count(DISTINCT bidder), count(DISTINCT bidder) FILTER (price < 10000), count(DISTINCT bidder) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT bidder) FILTER (price >= 1000000),
  count(DISTINCT auction), count(DISTINCT auction) FILTER (price < 10000), count(DISTINCT auction) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT auction) FILTER (price >= 1000000)
FROM bid GROUP BY 1

-- q16
SELECT channel, strftime(dateTime, '%Y-%m-%d'), max(strftime(dateTime, '%H:%M')),
  count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000),
  count(DISTINCT bidder), count(DISTINCT bidder) FILTER (price < 10000), count(DISTINCT bidder) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT bidder) FILTER (price >= 1000000),
  count(DISTINCT auction), count(DISTINCT auction) FILTER (price < 10000), count(DISTINCT auction) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT auction) FILTER (price >= 1000000)
FROM bid GROUP BY 1, 2

-- q17
SELECT auction, strftime(dateTime, '%Y-%m-%d'), count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000), min(price), max(price), avg(price), sum(price)
FROM bid GROUP BY 1, 2

-- q21
SELECT auction, bidder, price, channel,
  coalesce(map {'Apple': '0', 'Google': '1', 'Facebook': '2', 'Baidu': '3'}[channel], nullif(regexp_extract(url, 'channel_id=([^&]*)', 1), '')) AS id
FROM bid WHERE id IS NOT NULL

-- q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6) FROM bid
