package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"unicode/utf8"

	"shardway/internal/rawio"
	"shardway/node/disk"
)

// instanceHeader is the response header by which the app names its process.
const instanceHeader = "Shardway-App-Instance"

// appInstance is what the app called its process in the response to the last check.
type appInstance struct{ name atomic.Pointer[string] }

// get returns the name, empty if the last check met no response or no usable name.
func (a *appInstance) get() string {
	if p := a.name.Load(); p != nil {
		return *p
	}
	return ""
}

// set takes the name; nil means none. A name that is not UTF-8 is quoted, because the data directory
// keeps UTF-8 only, and a name that comes back changed would count as a restart.
func (a *appInstance) set(name *string) {
	if name != nil && !utf8.ValidString(*name) {
		quoted := strconv.QuoteToASCII(*name)
		name = &quoted
	}
	if name != nil && (*name == "" || len(*name) > disk.MaxAppInstance) {
		name = nil
	}
	a.name.Store(name)
}

// appChecker returns the check of the app that dial reaches: GET of a path, good
// below 400, or without a path only a connect. The address is what a Host tells
// the app; one on a Unix socket is told localhost. Each check sets named.
func appChecker(dial func(context.Context) (net.Conn, error), addr, path string, named *appInstance) func(context.Context) error {
	if path == "" {
		// An app is on the same machine as a rule, and is asked twice a second: by package
		// net that shows in what a node takes that has no requests.
		at, _ := netip.ParseAddrPort(addr) // else it is a name, or a Unix socket
		near := at.Addr().IsLoopback()     // elsewhere no connection is there at once
		return func(ctx context.Context) error {
			if near && rawio.Connects(at) {
				return nil
			}
			c, err := dial(ctx)
			if err != nil {
				return err
			}
			return c.Close()
		}
	}
	client := &http.Client{
		// A connection of its own each time: a check shall find out whether the
		// app still accepts any. No proxy from the environment stands between.
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(addr, "localhost")+path, http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("User-Agent", "shardway-health")
		named.set(nil)
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		name := res.Header.Get(instanceHeader)
		named.set(&name)
		if err := res.Body.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if res.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("the app answered %s with %s", path, res.Status)
		}
		return nil
	}
}
