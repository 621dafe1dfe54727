SELECT day_of(f.time_hour) AS day, f.origin, CAST(floor(w.wind_speed / 10) * 10 AS BIGINT) AS wind_mph,
       count(*) AS scheduled, count(f.dep_delay) AS departed, avg(f.dep_delay) AS mean_delay
FROM flights f JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
WHERE w.wind_speed IS NOT NULL
GROUP BY ALL
