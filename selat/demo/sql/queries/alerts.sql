-- Every departure more than five hours late, as it happens.
SELECT time_hour, carrier, flight, origin, dest, dep_delay
FROM flights
WHERE dep_delay > 300
