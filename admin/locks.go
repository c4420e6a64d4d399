package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// maxLockWaits and maxLockWaitsPerSource limit the concurrent requests that wait for a lock.
const (
	maxLockWaits          = 256
	maxLockWaitsPerSource = 128
	// maxLockWait is the longest parameter wait. The registry has the same limit.
	maxLockWait = 5 * time.Minute
)

// noRegistry is the error of a node without a registry.
func noRegistry() error {
	return problem.New(problem.NotFound, "this node offers no registry: start it with --registry")
}

// locks responds with all locks.
func (s *Server) locks(w http.ResponseWriter, r *http.Request) error {
	if s.api.Locks == nil {
		return noRegistry()
	}
	if _, err := query(r); err != nil {
		return err
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	list, err := s.api.Locks.Locks(ctx)
	if err != nil {
		return err
	}
	list.Locks = nonNil(list.Locks)
	return writeJSON(w, list)
}

// lock serves one lock: GET shows it, POST acquires it, PATCH renews it, and DELETE releases it.
func (s *Server) lock(w http.ResponseWriter, r *http.Request) error {
	if s.api.Locks == nil {
		return noRegistry()
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return s.showLock(w, r)
	}
	request, err := readLockRequest(r)
	if err != nil {
		return err
	}
	admission := admissionOf(r)
	admission.action = fmt.Sprintf("%s lock %s by %s", lockVerb(r.Method), truncate(request.Name), truncate(request.Holder))
	if request.Token != 0 {
		admission.action += fmt.Sprintf(" with token %d", request.Token)
	}
	switch r.Method {
	case http.MethodPost:
		return s.acquireLock(w, r, request)
	case http.MethodPatch:
		ctx, cancel := actionContext(r.Context(), w)
		defer cancel()
		grant, err := s.api.Locks.RenewLock(ctx, request)
		if err != nil {
			return err
		}
		return writeJSON(w, grant)
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	if err := s.api.Locks.ReleaseLock(ctx, request); err != nil {
		return err
	}
	return writeJSON(w, api.LockRelease{Name: request.Name, Holder: request.Holder, Token: request.Token})
}

// lockVerb returns what a method does with a lock, for the log.
func lockVerb(method string) string {
	switch method {
	case http.MethodPost:
		return "acquire"
	case http.MethodPatch:
		return "renew"
	}
	return "release"
}

// showLock responds with one lock.
func (s *Server) showLock(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	list, err := s.api.Locks.Locks(ctx)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	for _, lock := range list.Locks {
		if lock.Name == name {
			return writeJSON(w, lock)
		}
	}
	p := problem.Newf(problem.NotFound, "lock %q is free: POST acquires it", truncate(name))
	p.Param, p.Value = "name", truncate(name)
	return p
}

// acquireLock acquires a lock, and waits for it if the request has a wait.
func (s *Server) acquireLock(w http.ResponseWriter, r *http.Request, request api.LockRequest) error {
	wait := time.Duration(0)
	if request.Wait != "" {
		var err error
		if wait, err = time.ParseDuration(request.Wait); err != nil || wait < 0 || wait > maxLockWait {
			return badParam("wait", request.Wait, "is not a duration up to 5m: give a value such as 30s")
		}
	}
	if wait == 0 {
		ctx, cancel := actionContext(r.Context(), w)
		defer cancel()
		return s.respondWithGrant(ctx, w, request)
	}
	if !s.lockWaits.Acquire(r.RemoteAddr) {
		return &problem.Problem{Code: problem.NotReady, Detail: "too many clients wait for locks at this node: ask another node, or try again", RetryAfter: time.Second}
	}
	defer s.lockWaits.Release(r.RemoteAddr)
	// If this fails, the shorter default timeout applies.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + api.ActionTimeout + writeTimeout))
	return s.respondWithGrant(r.Context(), w, request)
}

// respondWithGrant acquires a lock and responds with its token.
func (s *Server) respondWithGrant(ctx context.Context, w http.ResponseWriter, request api.LockRequest) error {
	grant, err := s.api.Locks.AcquireLock(ctx, request)
	if err != nil {
		return err
	}
	return writeJSON(w, grant)
}

// lockArguments returns the names of the arguments that a method of a lock accepts.
func lockArguments(method string) []string {
	switch method {
	case http.MethodPost:
		return []string{"holder", "ttl", "wait"}
	case http.MethodPatch:
		return []string{"holder", "token", "ttl"}
	}
	return []string{"holder", "token"}
}

// readLockRequest parses the arguments from the JSON body or from the query.
func readLockRequest(r *http.Request) (request api.LockRequest, err error) {
	body, err := readBody(r)
	if err != nil {
		return request, err
	}
	names := lockArguments(r.Method)
	if body != nil {
		request, err = decodeObject[api.LockRequest](body, `{"holder":"worker-1","ttl":"30s"}`, names)
	} else {
		request, err = lockRequestOf(r, names)
	}
	request.Name = r.PathValue("name")
	switch {
	case err != nil:
		return request, err
	case request.Holder == "":
		return request, missing("holder", "give a text that identifies your process, as in ?holder=worker-1")
	case r.Method == http.MethodPost && request.TTL == "":
		return request, missing("ttl", "give a duration from 1s to 24h, as in ?ttl=30s")
	case r.Method != http.MethodPost && request.Token == 0:
		return request, missing("token", "give the token of the response that granted the lock")
	}
	return request, nil
}

// lockRequestOf parses the arguments from the query.
func lockRequestOf(r *http.Request, names []string) (request api.LockRequest, err error) {
	values, err := query(r, names...)
	if err != nil {
		return request, err
	}
	request = api.LockRequest{Holder: values.get("holder"), TTL: values.get("ttl"), Wait: values.get("wait")}
	request.Token, err = values.number("token")
	return request, err
}
