//go:build linux

package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Client is a client of a Store. Any number of goroutines may use it.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client of the store at url.
func NewClient(url string) *Client {
	// Idle connections must end here before they end at the store. Otherwise net/http
	// would repeat a request on a closed connection, and the first request could overtake
	// the second.
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout / 2}
	return &Client{url: url, http: &http.Client{Transport: transport}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Read returns the value of a key, empty before its first write.
func (c *Client) Read(ctx context.Context, place OpKey) (string, error) {
	return c.do(ctx, http.MethodGet, place, "")
}

// Write sets the value of a key.
func (c *Client) Write(ctx context.Context, place OpKey, value string) error {
	_, err := c.do(ctx, http.MethodPost, place, value)
	return err
}

// do sends an operation to the store and returns the body of the response. It returns ErrFenced if the store rejects
// the epoch of the operation.
func (c *Client) do(ctx context.Context, method string, place OpKey, value string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+"/?"+place.query(), strings.NewReader(value))
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	message := strings.TrimSpace(string(body))
	switch {
	case err != nil:
		return "", fmt.Errorf("store: %w", err)
	case resp.StatusCode == http.StatusOK:
		return string(body), nil
	case resp.StatusCode == http.StatusConflict && message == ErrFenced.Error():
		return "", ErrFenced
	default:
		return "", fmt.Errorf("store: %d %s", resp.StatusCode, message)
	}
}
