package leaderloop

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/registry"
)

func TestCommandsForTheRegistryAreLimited(t *testing.T) {
	l := newRegistryLimit()
	now := l.at
	wantBusy := func(size int, want string) {
		t.Helper()
		if err := l.start(now, size); !errors.Is(err, api.ErrBusy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want busy with %q", err, want)
		}
	}
	for range maxRegistryInFlight {
		if err := l.start(now, 10); err != nil {
			t.Fatal(err)
		}
	}
	wantBusy(10, "64 commands for the registry are in flight")
	for range maxRegistryInFlight {
		l.end(10)
	}
	if err := l.start(now, maxRegistryBytes-10); err != nil {
		t.Fatal(err)
	}
	wantBusy(11, "the limit is 1048576")
	l.end(maxRegistryBytes - 10)
	for used := maxRegistryInFlight + 1; used < registryRate; used++ {
		if err := l.start(now, 10); err != nil {
			t.Fatalf("command %d: %v", used, err)
		}
		l.end(10)
	}
	wantBusy(10, "more than 2000 commands per second")
	now = now.Add(registryBurst)
	for range registryByteRate / maxRegistryBytes {
		if err := l.start(now, maxRegistryBytes); err != nil {
			t.Fatal(err)
		}
		l.end(maxRegistryBytes)
	}
	wantBusy(100, "more than 8388608 bytes per second")
	now = now.Add(time.Millisecond)
	if err := l.start(now, 100); err != nil {
		t.Errorf("after a pause: %v", err)
	}
}

// A command that a node could not decode must not reach the log, where it would stop every node.
func TestCommandThatCannotBeDecodedIsRefused(t *testing.T) {
	for what, command := range map[string]registry.Command{
		"TTL of a release": {Kind: registry.Release, Name: "x", Holder: "h", Token: 1, TTL: 48 * time.Hour},
		"holder of a put":  {Kind: registry.Put, Name: "x", Holder: strings.Repeat("h", 2000)},
	} {
		encoded, err := encodeCommand(command)
		if err == nil {
			_, err = registry.DecodeCommand(encoded)
			t.Errorf("%s is accepted; decoding it: %v", what, err)
		} else if !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%s: %v, want an invalid action", what, err)
		}
	}
	if _, err := encodeCommand(registry.Command{Kind: registry.Release, Name: "x", Holder: "h", Token: 1}); err != nil {
		t.Errorf("a valid command is refused: %v", err)
	}
}

// Waiters whose wait has passed end before the locks, so that no lock passes to one of them.
func TestWaitersExpireBeforeLocks(t *testing.T) {
	var commands []registry.Command
	for range maxExpiries + 3 {
		commands = append(commands, registry.Command{Kind: registry.ExpireWaiter})
	}
	commands = append(commands, registry.Command{Kind: registry.Expire}, registry.Command{Kind: registry.Expire})
	var sizes []int
	for len(commands) > 0 {
		batch := firstBatch(commands)
		for _, command := range batch {
			if command.Kind != batch[0].Kind {
				t.Errorf("%v and %v are submitted together", command.Kind, batch[0].Kind)
			}
		}
		sizes, commands = append(sizes, len(batch)), commands[len(batch):]
	}
	if want := []int{maxExpiries, 3, 2}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v commands, want %v", sizes, want)
	}
}
