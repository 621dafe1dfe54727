-- Departures are born at the three airports. {data} is the directory that `selat demo --prepare` filled.
CREATE STREAM flights (
  year INT, month INT, day INT,
  dep_time INT, sched_dep_time INT, dep_delay INT,
  arr_time INT, sched_arr_time INT, arr_delay INT,
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  air_time INT, distance INT, hour INT, minute INT,
  time_hour TIMESTAMP,
  WATERMARK FOR time_hour
)
COMMENT 'Departures of 2013, by the hour they were scheduled for'
WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true', 'null_value' = 'NA',
      'mode' = 'replay', 'replay_speed' = '{speed}')
AT ewr WITH ('path' = '{data}/ewr/flights'),
AT jfk WITH ('path' = '{data}/jfk/flights'),
AT lga WITH ('path' = '{data}/lga/flights');

-- What each airport's weather station measured stays at that airport.
CREATE TABLE weather (
  origin STRING, year INT, month INT, day INT, hour INT,
  temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE,
  precip DOUBLE, pressure DOUBLE, visib DOUBLE,
  time_hour TIMESTAMP
)
WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true', 'null_value' = 'NA')
AT ewr WITH ('path' = '{data}/ewr/weather.csv'),
AT jfk WITH ('path' = '{data}/jfk/weather.csv'),
AT lga WITH ('path' = '{data}/lga/weather.csv');

-- Reference data lie at the hub; joins copy the columns they need to where the departures are.
CREATE TABLE airlines (carrier STRING, name STRING)
AT hub WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true', 'path' = '{data}/hub/airlines.csv');

CREATE TABLE planes (
  tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING,
  engines INT, seats INT, speed INT, engine STRING
)
AT hub WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true', 'null_value' = 'NA', 'path' = '{data}/hub/planes.csv');

CREATE TABLE airports (
  faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING
)
AT hub WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true', 'null_value' = 'NA', 'path' = '{data}/hub/airports.csv');
