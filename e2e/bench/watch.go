//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// scrapeInterval is the interval between two scrapes of a watched node: a tenth of a
// common interval.
const scrapeInterval = time.Second

// acceptMetrics is the Accept header of Prometheus for native histograms.
const acceptMetrics = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," +
	"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"

// observeNode returns a function for setup.startActivity that observes a node like a monitoring system
// and a dashboard. It scrapes the metrics and reads the event stream until stop is called.
// The first scrape comes after half of an interval, so that each measurement of whole
// seconds contains the same number of scrapes.
func observeNode(admin string) func(context.Context) (stop func() error) {
	return func(ctx context.Context) func() error {
		ctx, cancel := context.WithCancel(ctx)
		var readers sync.WaitGroup
		var scrapeErr, eventsErr error
		readers.Go(func() { scrapeErr = scrape(ctx, "http://"+admin+"/metrics") })
		readers.Go(func() { eventsErr = readEvents(ctx, "http://"+admin+"/v1/events") })
		return func() error {
			cancel()
			readers.Wait()
			return errors.Join(scrapeErr, eventsErr)
		}
	}
}

// scrape scrapes metrics until ctx ends. It returns an error if there was no scrape.
func scrape(ctx context.Context, url string) error {
	next := time.NewTimer(scrapeInterval / 2)
	defer next.Stop()
	for attempt := 0; ; attempt++ {
		select {
		case <-next.C:
			next.Reset(scrapeInterval)
		case <-ctx.Done():
			if attempt == 0 {
				return fmt.Errorf("bench: %s was not scraped", url)
			}
			return nil
		}
		// A scrape that has begun is completed.
		if err := copyResponse(context.WithoutCancel(ctx), url, acceptMetrics, startTimeout, io.Discard); err != nil {
			return err
		}
	}
}

// readEvents reads events until ctx ends. It returns an error if the stream ends before that
// or is empty.
func readEvents(ctx context.Context, url string) error {
	var received writeDetector
	switch err := copyResponse(ctx, url, "text/event-stream", 0, &received); {
	case ctx.Err() == nil && err == nil:
		return fmt.Errorf("bench: %s ended early", url)
	case ctx.Err() == nil:
		return err
	case !bool(received):
		return fmt.Errorf("bench: %s sent nothing", url)
	}
	return nil
}

// writeDetector is an io.Writer that becomes true at the first write.
type writeDetector bool

func (d *writeDetector) Write(p []byte) (int, error) {
	*d = true
	return len(p), nil
}

// copyResponse sends a GET request and copies the response body to dst. timeout limits the whole
// request; zero means that there is no limit.
func copyResponse(ctx context.Context, url, accept string, timeout time.Duration, dst io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	resp, err := (&http.Client{Timeout: timeout}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("bench: %s: %s", url, resp.Status)
	}
	_, err = io.Copy(dst, resp.Body)
	return err
}
