package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"shardway/admin/api"
)

// Locks returns all locks of the registry.
func (c *Client) Locks(ctx context.Context) (api.LockList, error) {
	return getJSON[api.LockList](ctx, c, "/v1/locks", nil)
}

// AcquireLock gets a lock. It waits for up to request.Wait.
func (c *Client) AcquireLock(ctx context.Context, request api.LockRequest) (api.LockGrant, error) {
	wait, _ := time.ParseDuration(request.Wait) // the node reports an invalid duration
	return c.changeLock(ctx, http.MethodPost, request, wait)
}

// RenewLock restarts the TTL of a lock.
func (c *Client) RenewLock(ctx context.Context, request api.LockRequest) (api.LockGrant, error) {
	return c.changeLock(ctx, http.MethodPatch, request, 0)
}

// changeLock sends a request that responds with a grant. The node responds up to wait later than to other requests.
func (c *Client) changeLock(ctx context.Context, method string, request api.LockRequest, wait time.Duration) (api.LockGrant, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return api.LockGrant{}, err
	}
	return fetchJSON[api.LockGrant](ctx, c, call{method: method, path: lockPath(request.Name), body: body, serverWait: wait + api.ActionTimeout})
}

// ReleaseLock ends a lock.
func (c *Client) ReleaseLock(ctx context.Context, request api.LockRequest) (api.LockRelease, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return api.LockRelease{}, err
	}
	return fetchJSON[api.LockRelease](ctx, c, call{method: http.MethodDelete, path: lockPath(request.Name), body: body, serverWait: api.ActionTimeout})
}

func lockPath(name string) string { return "/v1/locks/" + url.PathEscape(name) }
