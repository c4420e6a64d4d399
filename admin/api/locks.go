package api

import "context"

// Lock is a lock of the registry.
type Lock struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	// Token is the fencing token: the index of the log entry that granted the lock. Each grant of a lock has a higher
	// token than all earlier ones.
	Token uint64 `json:"token"`
	// TTL is how long the lock is held after the last renewal.
	TTL string `json:"ttl"`
	// Contended is the number of requests of other holders since the lock was last free.
	Contended uint64 `json:"contended"`
	// Waiters has the holders that wait, in the order in which they get the lock.
	Waiters []string `json:"waiters"`
}

// LockList is the response of GET /v1/locks.
type LockList struct {
	Index uint64 `json:"index"` // of the last log entry of the registry
	Locks []Lock `json:"locks"` // sorted by name
}

// LockGrant is the response to a request that gets or renews a lock.
type LockGrant struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	Token  uint64 `json:"token"` // as in Lock
	TTL    string `json:"ttl"`
	// Waited is true if the holder got the lock from the queue. The TTL has then begun before the response.
	Waited bool `json:"waited"`
}

// LockRequest contains the arguments of a request for a lock.
type LockRequest struct {
	// Name is the name of the lock, from the path.
	Name string `json:"-"`
	// Holder identifies the process. A repeated request of the same holder gets the same token.
	Holder string `json:"holder"`
	// TTL is a duration from 1s to 24h. It is empty for a release. For a renewal, empty keeps the TTL.
	TTL string `json:"ttl,omitempty"`
	// Wait is how long the request waits for the lock, up to 5m. Empty means that it does not wait.
	Wait string `json:"wait,omitempty"`
	// Token is the token of the lock to renew or release.
	Token uint64 `json:"token,omitempty"`
}

// LockRelease is the response to the release of a lock.
type LockRelease struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	Token  uint64 `json:"token"`
}

// LockService serves /v1/locks. Its errors are *problem.Problem, or wrap an error of this package.
type LockService interface {
	// Locks returns all locks. The result contains each request that was completed before the call.
	Locks(ctx context.Context) (LockList, error)
	// AcquireLock gets a lock. It waits for up to LockRequest.Wait, while ctx has not ended.
	AcquireLock(ctx context.Context, request LockRequest) (LockGrant, error)
	// RenewLock restarts the TTL of a lock.
	RenewLock(ctx context.Context, request LockRequest) (LockGrant, error)
	// ReleaseLock ends a lock. The next waiter gets it.
	ReleaseLock(ctx context.Context, request LockRequest) error
}
