package adminapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardway/admin/api"
	"shardway/internal/problem"
	"shardway/internal/timingrules"
	"shardway/node/control"
	"shardway/node/registrystore"
	"shardway/registry"
)

// registryRetryInterval is the interval at which a command is sent again while the cluster has no leader.
const registryRetryInterval = 50 * time.Millisecond

// Registry serves the locks of the registry. Its methods may be called from any goroutine.
type Registry struct {
	// Leader applies commands at the leader.
	Leader RegistryLeader
	// Store is the registry of this node.
	Store *registrystore.Store
	// CountAcquire counts a request for a lock by its result: granted, waited or held.
	CountAcquire func(result string)
}

// RegistryLeader performs the requests for the registry at the leader, which may be another node.
type RegistryLeader interface {
	// ApplyRegistry applies a command.
	ApplyRegistry(ctx context.Context, command registry.Command) (registry.Result, error)
	// RegistryIndex returns the index for a linearizable read.
	RegistryIndex(ctx context.Context) (uint64, error)
}

var _ api.LockService = (*Registry)(nil)

// untilLed calls f until its error is not that the cluster has no leader, or ctx ends. Such a call has changed nothing.
func untilLed[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	for {
		result, err := f(ctx)
		if !errors.Is(err, api.ErrNoLeader) {
			return result, err
		}
		timer := time.NewTimer(registryRetryInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return result, err
		}
	}
}

// apply validates a command and applies it at the leader.
func (r *Registry) apply(ctx context.Context, command registry.Command) (registry.Result, error) {
	if err := command.Validate(); err != nil {
		return registry.Result{}, fieldProblem(err)
	}
	result, err := untilLed(ctx, func(ctx context.Context) (registry.Result, error) { return r.Leader.ApplyRegistry(ctx, command) })
	if err == nil && result.Outcome == registry.Full {
		err = problem.New(problem.RegistryFull, "the registry is full: "+result.Limit)
	}
	return result, err
}

// read calls f with a registry that contains all commands that were completed before the call.
func (r *Registry) read(ctx context.Context, f func(*registry.State)) error {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	index, err := untilLed(ctx, r.Leader.RegistryIndex)
	if err != nil {
		return err
	}
	if err := r.Store.ReadAt(ctx, index, f); err != nil {
		return fmt.Errorf("%w: this node has not applied the log up to entry %d: ask another node", api.ErrUnknown, index)
	}
	return nil
}

// fieldProblem converts the error of registry.Command.Validate.
func fieldProblem(err error) error {
	field, ok := errors.AsType[*registry.FieldError](err)
	if !ok {
		return err
	}
	return &problem.Problem{Code: problem.BadRequest, Detail: field.Error(), Param: field.Field, Value: field.Value}
}

// parseDuration parses a field. An empty field is zero.
func parseDuration(field, value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	duration, err := time.ParseDuration(value)
	if err != nil {
		return 0, &problem.Problem{Code: problem.BadRequest, Detail: fmt.Sprintf("%s = %q is not a duration: give a value such as 30s", field, value), Param: field, Value: value}
	}
	return duration.Truncate(time.Millisecond), nil // the log contains whole milliseconds
}

// lockCommand converts a request. The parsed durations are part of the command.
func lockCommand(kind registry.Kind, request api.LockRequest) (command registry.Command, err error) {
	command = registry.Command{Kind: kind, Name: request.Name, Holder: request.Holder, Token: request.Token}
	if command.TTL, err = parseDuration("ttl", request.TTL); err != nil {
		return command, err
	}
	command.Wait, err = parseDuration("wait", request.Wait)
	return command, err
}

// Locks returns all locks.
func (r *Registry) Locks(ctx context.Context) (list api.LockList, err error) {
	err = r.read(ctx, func(s *registry.State) {
		list.Index = s.Index()
		for _, lock := range s.Locks() {
			entry := api.Lock{Name: lock.Name, Holder: lock.Holder, Token: lock.Token, TTL: timingrules.Short(lock.TTL), Contended: lock.Contended, Waiters: []string{}}
			for _, waiter := range lock.Waiters {
				entry.Waiters = append(entry.Waiters, waiter.Holder)
			}
			list.Locks = append(list.Locks, entry)
		}
	})
	return list, err
}

// AcquireLock gets a lock, and waits for it if another holder has it.
func (r *Registry) AcquireLock(ctx context.Context, request api.LockRequest) (api.LockGrant, error) {
	command, err := lockCommand(registry.Acquire, request)
	if err != nil {
		return api.LockGrant{}, err
	}
	result, err := r.apply(ctx, command)
	if err != nil {
		return api.LockGrant{}, err
	}
	if result.Outcome == registry.Done {
		r.CountAcquire("granted")
		return grantOf(result.Lock, false), nil
	}
	if result.Outcome == registry.Queued {
		return r.awaitLock(ctx, command, result)
	}
	r.CountAcquire("held")
	return api.LockGrant{}, heldProblem(result.Lock)
}

// awaitLock waits until a queued holder has the lock. queued is the result of the command that has added it to the queue.
func (r *Registry) awaitLock(ctx context.Context, command registry.Command, queued registry.Result) (api.LockGrant, error) {
	waitCtx, cancel := context.WithTimeout(ctx, command.Wait)
	defer cancel()
	var state registry.Wait
	var lock registry.Lock
	err := r.Store.Await(waitCtx, func(s *registry.State) bool {
		if s.Index() < queued.Index {
			return false
		}
		state, lock = s.WaitState(command.Name, command.Holder, queued.Index)
		return state != registry.WaitQueued
	})
	if err == nil && state == registry.WaitGranted {
		r.CountAcquire("waited")
		return grantOf(lock, true), nil
	}
	if err != nil {
		// The caller has left or does not wait any longer, so its place must not get the lock. The command also releases
		// a lock that the place has got in the meantime.
		withdraw := registry.Command{Kind: registry.Withdraw, Name: command.Name, Holder: command.Holder, Renewal: queued.Index}
		if _, err := r.apply(context.WithoutCancel(ctx), withdraw); err != nil {
			return api.LockGrant{}, err
		}
	}
	r.CountAcquire("held")
	if lock.Name == "" {
		lock = queued.Lock
	}
	return api.LockGrant{}, heldProblem(lock)
}

// RenewLock restarts the TTL of a lock.
func (r *Registry) RenewLock(ctx context.Context, request api.LockRequest) (api.LockGrant, error) {
	command, err := lockCommand(registry.Renew, request)
	if err != nil {
		return api.LockGrant{}, err
	}
	result, err := r.apply(ctx, command)
	if err != nil {
		return api.LockGrant{}, err
	}
	if result.Outcome != registry.Done {
		return api.LockGrant{}, notHeldProblem(request)
	}
	return grantOf(result.Lock, false), nil
}

// ReleaseLock ends a lock.
func (r *Registry) ReleaseLock(ctx context.Context, request api.LockRequest) error {
	command, err := lockCommand(registry.Release, request)
	if err != nil {
		return err
	}
	result, err := r.apply(ctx, command)
	if err != nil {
		return err
	}
	if result.Outcome != registry.Done {
		return notHeldProblem(request)
	}
	return nil
}

func grantOf(lock registry.Lock, waited bool) api.LockGrant {
	return api.LockGrant{Name: lock.Name, Holder: lock.Holder, Token: lock.Token, TTL: timingrules.Short(lock.TTL), Waited: waited}
}

// heldProblem returns the error for a lock that another holder has.
func heldProblem(lock registry.Lock) error {
	return problem.Newf(problem.LockHeld, "lock %q is held by %q with token %d: try again, or wait for it with wait=30s", lock.Name, lock.Holder, lock.Token)
}

// notHeldProblem returns the error for a lock that does not have the holder and the token of the request.
func notHeldProblem(request api.LockRequest) error {
	return problem.Newf(problem.LockNotHeld, "lock %q is not held by %q with token %d: it was released or has expired; stop the work that it protects, and acquire it again", request.Name, request.Holder, request.Token)
}
