package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"shardway/admin/api"
	"shardway/admin/localsock"
)

// LocalClient sends requests to the local socket of a node.
type LocalClient struct{ c *Client }

// NewLocal returns a LocalClient for the node with this data directory.
func NewLocal(data string) (*LocalClient, error) {
	path, err := localsock.Path(data)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return &LocalClient{&Client{base: "http://self", addr: path, isLocalSocket: true, http: &http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
		MaxResponseHeaderBytes: maxResponseHeader,
	}}}}, nil
}

// Close closes idle connections.
func (c *LocalClient) Close() { c.c.Close() }

// Drain starts a drain that lasts as long as the process runs, and returns its progress.
func (c *LocalClient) Drain(ctx context.Context) (api.DrainState, error) {
	return fetchJSON[api.DrainState](ctx, c.c, call{method: http.MethodPost, path: localsock.DrainPath})
}

// State returns the progress of the drain.
func (c *LocalClient) State(ctx context.Context) (api.DrainState, error) {
	return getJSON[api.DrainState](ctx, c.c, localsock.DrainPath, nil)
}

// describeLocalError is describeError for the local socket.
func (c *Client) describeLocalError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no node runs on the data directory %q: name the one of the node with --data DIR (%w)", filepath.Dir(c.addr), err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("only the user that the node runs as may use %s: become that user (%w)", c.addr, fs.ErrPermission)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer at %s in time (%w)", c.addr, context.DeadlineExceeded)
	}
	return fmt.Errorf("no answer at %s: has the node just ended? (%w)", c.addr, err)
}
