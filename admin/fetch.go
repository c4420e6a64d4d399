package admin

import (
	"context"
	"net/http"
)

// Fetch returns what the node answers to GET path, as it stands: for who keeps answers
// and does not look into them.
func (c *Client) Fetch(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, call{method: http.MethodGet, path: path})
}
