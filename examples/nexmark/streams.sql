-- NEXMark's streams and side input, at three sites: two minutes of 50 events per second and site, over a midnight.
-- All streams begin at one instant, at rates of 1 : 3 : 46.

CREATE STREAM person (
  id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
  dateTime TIMESTAMP, extra STRING,
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4 seconds'
)
WITH ('connector' = 'generator', 'preset' = 'nexmark_person', 'start' = '2026-01-31T23:59:00Z',
      'rows_per_second' = '1', 'rows' = '120')
AT us, AT eu, AT asia;

CREATE STREAM auction (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
  dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING,
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4 seconds'
)
WITH ('connector' = 'generator', 'preset' = 'nexmark_auction', 'start' = '2026-01-31T23:59:00Z',
      'rows_per_second' = '3', 'rows' = '360')
AT us, AT eu, AT asia;

CREATE STREAM bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING,
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4 seconds'
)
WITH ('connector' = 'generator', 'preset' = 'nexmark_bid', 'start' = '2026-01-31T23:59:00Z',
      'rows_per_second' = '46', 'rows' = '5520')
AT us, AT eu, AT asia;

-- The same bids, which have no time of their own: that at which they arrive counts.
CREATE STREAM bid_by_arrival (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING,
  WATERMARK FOR arrived
)
WITH ('connector' = 'generator', 'preset' = 'nexmark_bid', 'start' = '2026-01-31T23:59:00Z',
      'rows_per_second' = '46', 'rows' = '5520')
AT us, AT eu, AT asia;

CREATE TABLE side_input (key BIGINT, value STRING)
WITH ('connector' = 'generator', 'rows' = '10000', 'column.key' = 'sequence', 'column.value' = 'sequence')
AT us;
