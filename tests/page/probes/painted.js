// When the page was painted first, in milliseconds from its start.
() =>
  new Promise((done) => {
    const take = (list) => {
      const seen = list.getEntriesByName("first-contentful-paint")[0];
      if (seen) done(seen.startTime);
    };
    new PerformanceObserver(take).observe({ type: "paint", buffered: true });
    take(performance);
  })
