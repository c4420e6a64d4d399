package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// appChecker returns the check of the app at addr: GET of a path, good below
// 400, or without a path only a connect.
func appChecker(addr, path string) func(context.Context) error {
	var dialer net.Dialer
	if path == "" {
		return func(ctx context.Context) error {
			c, err := dialer.DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return c.Close()
		}
	}
	client := &http.Client{
		// A connection of its own each time: a check shall find out whether the
		// app still accepts any. No proxy from the environment stands between.
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("User-Agent", "shardway-health")
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if res.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("the app answered %s with %s", path, res.Status)
		}
		return nil
	}
}
