-- What does wind do to departures? The weather stays where it was measured: each airport joins with its own.
SELECT window.start AS day, f.origin, floor(w.wind_speed / 10) * 10 AS wind_mph,
       count(*) AS scheduled, count(f.dep_delay) AS departed, avg(f.dep_delay) AS mean_delay
FROM flights f JOIN weather w ON f.site = w.site AND f.time_hour = w.time_hour
WHERE w.wind_speed IS NOT NULL
GROUP BY window(f.time_hour, '1 day'), f.origin, floor(w.wind_speed / 10) * 10
