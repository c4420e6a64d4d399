package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// How often readiness is asked for, and how long one answer may take.
const (
	probeEvery   = 50 * time.Millisecond
	probeTimeout = time.Second
)

// prober asks processes whether they are ready.
type prober struct{ http *http.Client }

func newProber() prober {
	return prober{&http.Client{
		Timeout:   probeTimeout,
		Transport: &http.Transport{DisableKeepAlives: true}, // straight to loopback, whatever proxy the environment names
	}}
}

// ask returns nil if the URL answers with success, else why not.
func (p prober) ask(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 300 {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(b)))
}

// wait returns once the URL answers with success, or with ctx's error.
func (p prober) wait(ctx context.Context, url string) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		if err := p.ask(ctx, url); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
