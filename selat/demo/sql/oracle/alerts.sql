SELECT time_hour, carrier, flight, origin, dest, dep_delay
FROM flights
WHERE dep_delay > 300
