SELECT * FROM (
  SELECT day_of(time_hour) AS day, dest, count(arr_delay) AS arrivals, avg(arr_delay) AS mean_delay
  FROM flights
  GROUP BY ALL
  HAVING count(arr_delay) >= 5
)
QUALIFY row_number() OVER (PARTITION BY day ORDER BY mean_delay DESC, dest) <= 3
