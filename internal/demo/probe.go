package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Interval and timeout of readiness checks.
const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = time.Second
)

// prober checks whether processes are ready.
type prober struct{ http *http.Client }

func newProber() prober {
	return prober{&http.Client{
		Timeout:   probeTimeout,
		Transport: &http.Transport{DisableKeepAlives: true}, // ignores HTTP_PROXY
	}}
}

// check returns nil if the URL responds with a status below 300, and otherwise the cause of the failure.
func (p prober) check(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 300 {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(b)))
}

// wait returns nil once check succeeds, or the error of ctx.
func (p prober) wait(ctx context.Context, url string) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		if err := p.check(ctx, url); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
