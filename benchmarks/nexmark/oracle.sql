-- The questions of NEXMark's queries, asked of DuckDB over all rows of all sites; times are UTC.
-- `cell_end(ts)` is the end of the ten seconds that ts is in: EMIT EVERY tells what has changed at that time.

-- q0
SELECT auction, bidder, price, dateTime, extra FROM bid

-- q1
SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid

-- q2
SELECT auction, price FROM bid WHERE auction % 123 = 0

-- q3
SELECT P.name, P.city, P.state, A.id FROM auction AS A JOIN person AS P ON A.seller = P.id
  AND A.dateTime BETWEEN P.dateTime - INTERVAL 1 HOUR AND P.dateTime + INTERVAL 1 DAY
WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')

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

-- q4
WITH closed AS (
  SELECT A.category, A.expires AS closed, max(B.price) AS final
  FROM auction AS A JOIN bid AS B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.category, A.dateTime, A.expires
),
c AS (SELECT DISTINCT category, cell_end(closed) AS until FROM closed)
SELECT category, avg(final), 'upsert', until FROM c JOIN closed USING (category) WHERE closed < until GROUP BY category, until

-- q6
SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY closed, final ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) FROM (
  SELECT A.seller, A.expires AS closed, B.price AS final
  FROM auction AS A JOIN bid AS B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  QUALIFY row_number() OVER (PARTITION BY A.id, A.dateTime, A.expires ORDER BY B.price DESC, B.dateTime) = 1
)

-- q9
SELECT
  A.id, A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category, A.extra,
  B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra
FROM auction AS A JOIN bid AS B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
QUALIFY row_number() OVER (PARTITION BY A.id, A.dateTime, A.expires ORDER BY B.price DESC, B.dateTime,
  A.itemName, A.description, A.initialBid, A.reserve, A.seller, A.category, A.extra, B.auction, B.bidder, B.extra) = 1

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
-- For each cell of ten seconds with bids of the day, all of the day's bids up to its end; q16 and q17 likewise by their keys.
WITH c AS (SELECT DISTINCT strftime(dateTime, '%Y-%m-%d') AS day, cell_end(dateTime) AS until FROM bid)
SELECT day,
  count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000),
  count(DISTINCT bidder), count(DISTINCT bidder) FILTER (price < 10000), count(DISTINCT bidder) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT bidder) FILTER (price >= 1000000),
  count(DISTINCT auction), count(DISTINCT auction) FILTER (price < 10000), count(DISTINCT auction) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT auction) FILTER (price >= 1000000),
  'upsert', until
FROM c JOIN bid ON strftime(dateTime, '%Y-%m-%d') = day AND dateTime < until GROUP BY day, until

-- q16
WITH c AS (SELECT DISTINCT channel, strftime(dateTime, '%Y-%m-%d') AS day, cell_end(dateTime) AS until FROM bid)
SELECT channel, day, max(strftime(dateTime, '%H:%M')),
  count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000),
  count(DISTINCT bidder), count(DISTINCT bidder) FILTER (price < 10000), count(DISTINCT bidder) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT bidder) FILTER (price >= 1000000),
  count(DISTINCT auction), count(DISTINCT auction) FILTER (price < 10000), count(DISTINCT auction) FILTER (price >= 10000 AND price < 1000000), count(DISTINCT auction) FILTER (price >= 1000000),
  'upsert', until
FROM c JOIN bid USING (channel) WHERE strftime(dateTime, '%Y-%m-%d') = day AND dateTime < until GROUP BY channel, day, until

-- q17
WITH c AS (SELECT DISTINCT auction, strftime(dateTime, '%Y-%m-%d') AS day, cell_end(dateTime) AS until FROM bid)
SELECT auction, day,
  count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000),
  min(price), max(price), avg(price), sum(price), 'upsert', until
FROM c JOIN bid USING (auction) WHERE strftime(dateTime, '%Y-%m-%d') = day AND dateTime < until GROUP BY auction, day, until

-- q18
-- A later bid always takes the place of an earlier one; of those of one instant, all columns decide.
SELECT auction, bidder, price, channel, url, dateTime, extra, 'upsert', cell_end(dateTime) AS cell FROM bid
QUALIFY row_number() OVER (PARTITION BY bidder, auction, cell ORDER BY dateTime DESC, price, channel, url, extra) = 1

-- q19
-- Those that are first at the end of each cell with bids on the auction, but for those that were before with the same rank.
WITH c AS (SELECT DISTINCT auction, cell_end(dateTime) AS until FROM bid),
ranked AS (
  SELECT bid.*, until, row_number() OVER (PARTITION BY auction, until ORDER BY price DESC, bidder, channel, url, dateTime, extra) AS place
  FROM c JOIN bid USING (auction) WHERE dateTime < until QUALIFY place <= 10
)
SELECT auction, bidder, price, channel, url, dateTime, extra, place, 'upsert', until FROM (
  SELECT *, lag(ROW(bidder, price, channel, url, dateTime, extra)) OVER (PARTITION BY auction, place ORDER BY until) AS before
  FROM ranked
) WHERE before IS DISTINCT FROM ROW(bidder, price, channel, url, dateTime, extra)

-- q20
SELECT
  B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra,
  A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category, A.extra
FROM bid AS B JOIN auction AS A ON B.auction = A.id
  AND B.dateTime BETWEEN A.dateTime - INTERVAL 1 HOUR AND A.dateTime + INTERVAL 1 DAY
WHERE A.category = 10

-- q21
SELECT auction, bidder, price, channel,
  coalesce(map {'Apple': '0', 'Google': '1', 'Facebook': '2', 'Baidu': '3'}[channel], nullif(regexp_extract(url, 'channel_id=([^&]*)', 1), '')) AS id
FROM bid WHERE id IS NOT NULL

-- q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6) FROM bid
