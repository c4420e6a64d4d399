package leaderloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node/control"
	"shardway/registry"
)

// Limits of the commands that a leader submits for the registry. A map change follows the entries that are in flight, so
// these limits also bound how long it waits for them.
const (
	maxRegistryInFlight = 64          // commands
	maxRegistryBytes    = 1 << 20     // in flight
	registryRate        = 2000        // commands per second
	registryByteRate    = 8 << 20     // per second
	registryBurst       = time.Second // commands and bytes of this time may come at once
)

// registryLimit limits the commands for the registry. It is safe for concurrent use.
type registryLimit struct {
	mu sync.Mutex
	// mu protects the following fields.
	inFlight, bytesInFlight int
	commands, bytes         float64 // available of the rates
	at                      time.Time
}

// newRegistryLimit returns a limit with nothing in flight.
func newRegistryLimit() *registryLimit {
	return &registryLimit{commands: registryRate * registryBurst.Seconds(), bytes: registryByteRate * registryBurst.Seconds(), at: time.Now()}
}

// start reserves a command of size bytes, or returns an api.ErrBusy that names the limit.
func (l *registryLimit) start(now time.Time, size int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	seconds := now.Sub(l.at).Seconds()
	l.at = now
	l.commands = min(l.commands+registryRate*seconds, registryRate*registryBurst.Seconds())
	l.bytes = min(l.bytes+registryByteRate*seconds, registryByteRate*registryBurst.Seconds())
	switch {
	case l.inFlight >= maxRegistryInFlight:
		return fmt.Errorf("%w: %d commands for the registry are in flight, which is the limit: try again", api.ErrBusy, l.inFlight)
	case l.inFlight > 0 && l.bytesInFlight+size > maxRegistryBytes:
		return fmt.Errorf("%w: commands for the registry with %d bytes are in flight, and the limit is %d: try again", api.ErrBusy, l.bytesInFlight, maxRegistryBytes)
	case l.commands < 1:
		return fmt.Errorf("%w: the registry gets more than %d commands per second: send fewer, or try again", api.ErrBusy, registryRate)
	case l.bytes < float64(size):
		return fmt.Errorf("%w: the registry gets more than %d bytes per second: send fewer, or try again", api.ErrBusy, registryByteRate)
	}
	l.inFlight++
	l.bytesInFlight += size
	l.commands--
	l.bytes -= float64(size)
	return nil
}

// end frees a command of size bytes.
func (l *registryLimit) end(size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.bytesInFlight -= size
}

// AnswerRegistry serves a control request for the registry.
func (l *Leadership) AnswerRegistry(ctx context.Context, encoded json.RawMessage) (any, error) {
	if len(encoded) == 0 {
		return l.RegistryIndex(ctx)
	}
	command, err := control.Decode[registry.Command](encoded)
	if err != nil {
		return nil, err
	}
	return l.ApplyRegistry(ctx, command)
}

// ApplyRegistry applies a command to the registry, and returns its result when this node has applied it.
func (l *Leadership) ApplyRegistry(ctx context.Context, command registry.Command) (registry.Result, error) {
	state := l.options.View.State()
	if !state.FormatVersion().HasRegistry() {
		return registry.Result{}, fmt.Errorf("%w: the registry needs format version %d, and format version %d is in force: run `shardway upgrade finalize`", api.ErrRefused, ack.RegistryFormatVersion, state.FormatVersion())
	}
	encoded, err := encodeCommand(command)
	if err != nil {
		return registry.Result{}, err
	}
	entry := ack.EncodeRegistry(state.FormatVersion(), encoded)
	if err = l.registryLimit.start(time.Now(), len(entry)); err != nil {
		return registry.Result{}, err
	}
	var result registry.Result
	err = awaitOrCancel(ctx, func() error {
		defer l.registryLimit.end(len(entry)) // after the Raft library has responded, even if ctx has ended
		response, applyErr := l.raft.ApplyResult(entry)
		if applyErr != nil {
			return applyErr
		}
		applied, ok := response.(registry.Result)
		if !ok {
			return fmt.Errorf("node: entry of the registry not applied: %v", response)
		}
		result = applied
		return nil
	})
	if err != nil {
		return registry.Result{}, wrapChangeError(err)
	}
	return result, nil
}

// encodeCommand encodes a command that every node can decode. Otherwise it returns an error, because a node that cannot
// decode an entry of the log stops.
func encodeCommand(command registry.Command) ([]byte, error) {
	if err := command.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	encoded := command.Encode()
	if _, err := registry.DecodeCommand(encoded); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	return encoded, nil
}

// RegistryIndex returns the index for a linearizable read, see Client.RegistryIndex. A barrier in the log proves that this
// node still leads after the call has begun. VerifyLeader does not: it also counts nonvoters, and responses that were sent
// before the call.
func (l *Leadership) RegistryIndex(ctx context.Context) (uint64, error) {
	if !l.ready.Load() {
		return 0, control.ErrNotLeader
	}
	if err := awaitOrCancel(ctx, l.raft.Barrier); err != nil {
		return 0, wrapChangeError(err)
	}
	var index uint64
	l.options.Registry.Read(func(s *registry.State) { index = s.Index() })
	return index, nil
}

const (
	// expiryInterval is the minimum interval between two checks of the deadlines.
	expiryInterval = 50 * time.Millisecond
	// maxExpiries is the maximum number of concurrent commands that end locks and waiters.
	maxExpiries = 16
)

// expireRegistry ends the locks and waiters of the registry whose time has passed. It returns when ctx ends. The deadlines
// count from when this leader first sees a renewal.
func (l *Loop) expireRegistry(ctx context.Context) {
	deadlines := registry.NewDeadlines()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := l.options.Registry.Changed()
		var now time.Duration
		l.options.Registry.Read(func(s *registry.State) {
			now = l.options.Clock.Precise() // not before the newest renewal was applied
			deadlines.Update(now, s)
		})
		commands, next := deadlines.Due(now)
		if len(commands) > 0 {
			l.submitExpiries(ctx, commands)
			next = now + expiryInterval // a failed command is submitted again
		}
		if next > 0 {
			timer.Reset(max(next-now, expiryInterval))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case <-changed:
		}
		timer.Reset(expiryInterval) // several changes in this time cause one check
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// submitExpiries submits commands that end locks and waiters, a few at a time. They have no effect if a holder has renewed
// its lock in the meantime. The waiters come first, so that a lock does not pass to a waiter whose wait has passed: commands
// of different kinds are never submitted together.
func (l *Loop) submitExpiries(ctx context.Context, commands []registry.Command) {
	for len(commands) > 0 {
		batch := firstBatch(commands)
		commands = commands[len(batch):]
		var calls sync.WaitGroup
		for _, command := range batch {
			calls.Go(func() {
				if _, err := l.ApplyRegistry(ctx, command); err != nil && !errors.Is(err, context.Canceled) {
					l.Log.Debug().Err(err).Str("name", command.Name).Msg("lock not expired yet")
				}
			})
		}
		calls.Wait()
		if ctx.Err() != nil {
			return
		}
	}
}

// firstBatch returns the first commands of the same kind, up to maxExpiries.
func firstBatch(commands []registry.Command) []registry.Command {
	count := 1
	for count < min(len(commands), maxExpiries) && commands[count].Kind == commands[0].Kind {
		count++
	}
	return commands[:count]
}
