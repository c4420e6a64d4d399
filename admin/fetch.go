package admin

import (
	"context"
	"net/http"
)

// Fetch returns the response to GET path without decoding it.
func (c *Client) Fetch(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, call{method: http.MethodGet, path: path})
}
