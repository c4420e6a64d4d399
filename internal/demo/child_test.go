package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
)

// behaviour is the environment variable by which the test binary, run again as
// a process of the demo, knows what to be.
const behaviour = "DEMO_TEST_CHILD"

// What a child can be.
const (
	good     = "good"     // nodes that are ready at once
	broken   = "broken"   // a node that says why it cannot run and ends
	red      = "red"      // nodes that never become ready
	stubborn = "stubborn" // nodes that ignore SIGTERM
	runner   = "runner"   // the demo itself
)

func TestMain(m *testing.M) {
	as := os.Getenv(behaviour)
	if as == "" {
		m.Run()
		return
	}
	if err := child(as); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // TestMain is the child's main
	}
}

func child(as string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch {
	case as == runner:
		return Run(ctx, Options{Env: environ(good)})
	case os.Args[1] == "demo-app":
		return RunApp(ctx, flagOf("--listen"), flagOf("--state"), os.Stdout)
	case as == broken:
		return errors.New("the disk is full")
	case as == stubborn:
		stop()
		signal.Ignore(syscall.SIGTERM)
		ctx = context.Background()
	}
	n := fakeNode{id: flagOf("--node"), ready: as != red}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", flagOf("--admin"))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, n.id, "listens"); err != nil {
		return err
	}
	return admin.New(admin.Options{API: apitest.SetOf(n), Log: zerolog.Nop()}).Serve(ctx, ln)
}

func flagOf(name string) string { return os.Args[slices.Index(os.Args, name)+1] }

// environ is the environment of a child with a behaviour. A child built with the
// race detector would sleep for a second when it ends.
func environ(as string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, behaviour+"=") })
	return append(env, behaviour+"="+as, "GORACE=atexit_sleep_ms=0")
}

// fakeNode is as much of a node as the demo asks for.
type fakeNode struct {
	api.Cluster // nil: the demo calls no other method

	id    string
	ready bool
}

func (n fakeNode) Ready() error {
	if !n.ready {
		return errors.New("no leader")
	}
	return nil
}

// Map owns everything itself, as if it had healed already. But n1 reports n2 as the owner.
func (n fakeNode) Map() api.Map {
	owner := n.id
	if owner == "n1" {
		owner = "n2"
	}
	return api.Map{Epoch: 1, Shards: 1, Owners: []int{0}, Nodes: []api.MapNode{{ID: owner}}}
}

// Idle reports that every node serves.
func (fakeNode) Idle(string) string { return "" }

// Shards returns no details.
func (fakeNode) Shards() api.ShardList { return api.ShardList{} }
