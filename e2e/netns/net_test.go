//go:build linux

package netns_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/netns"
)

// TestMain lets the test binary play the process in a host: a server that
// answers each line it reads, or a client that sends a line per line of its
// input and prints "yes" or "no" for the answer.
func TestMain(m *testing.M) {
	switch os.Getenv("NETNS_ROLE") {
	case "server":
		server(os.Getenv("NETNS_ADDR"))
	case "client":
		talk(os.Getenv("NETNS_ADDR"))
	default:
		m.Run()
	}
}

func server(addr string) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "listening")
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(c, c) }()
	}
}

func talk(addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	in, answers := bufio.NewScanner(os.Stdin), bufio.NewReader(c)
	_, _ = fmt.Fprintln(os.Stdout, "connected")
	for in.Scan() {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprintln(c, in.Text())
		got := "no"
		for {
			line, err := answers.ReadString('\n')
			if err != nil {
				break
			}
			if strings.TrimSpace(line) == in.Text() {
				got = "yes"
				break
			}
		}
		_, _ = fmt.Fprintln(os.Stdout, got)
	}
}

// start runs this binary in h in a role, and returns its input and its output.
func start(t *testing.T, h *netns.Host, role, addr string) (io.Writer, *bufio.Reader) {
	t.Helper()
	args := h.Command(os.Args[0])
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "NETNS_ROLE="+role, "NETNS_ADDR="+addr)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatalf("%s in %s did not start: %v", role, h.Namespace, err)
	}
	return in, r
}

// TestWiresAreCutAndHealed talks over one connection from host 0 to host 1.
func TestWiresAreCutAndHealed(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	w, err := netns.New(1, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	start(t, w.Host(1), "server", "0.0.0.0:9000")
	in, out := start(t, w.Host(0), "client", w.Host(1).Data+":9000")
	words := 0
	says := func(when, want string) {
		t.Helper()
		words++
		_, _ = fmt.Fprintf(in, "word %d\n", words)
		got, err := out.ReadString('\n')
		if err != nil || strings.TrimSpace(got) != want {
			t.Fatalf("%s: answer %q, %v, want %q", when, strings.TrimSpace(got), err, want)
		}
	}
	control := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err := new(net.Dialer).DialContext(ctx, "tcp", w.Host(1).Control+":9000")
		if err != nil {
			t.Fatalf("%s: the control network is cut too: %v", when, err)
		}
		_ = c.Close()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	says("at first", "yes")
	must(w.Isolate(2))
	says("another host isolated", "yes")
	for _, c := range []struct {
		name  string
		apply func() error
	}{
		{"isolated", func() error { return w.Isolate(1) }},
		{"requests blocked", func() error { return w.Block(0, 1) }},
		{"answers blocked", func() error { return w.Block(1, 0) }},
		{"cut", func() error { return w.Cut(0, 1) }},
	} {
		must(c.apply())
		says(c.name, "no")
		control(c.name)
		must(w.Heal())
		// Retransmission after a silence takes its time: ask until it works.
		deadline := time.Now().Add(20 * time.Second)
		for {
			words++
			_, _ = fmt.Fprintf(in, "word %d\n", words)
			got, err := out.ReadString('\n')
			must(err)
			if strings.TrimSpace(got) == "yes" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: not healed", c.name)
			}
		}
	}
}

// TestCloseLeavesNothing and a sweep that spares what belongs to the living.
func TestCloseLeavesNothing(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	before := devices(t)
	w, err := netns.New(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := netns.New(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/run/netns/" + w.Host(0).Namespace); err != nil {
		t.Errorf("swept away by another network of the same process: %v", err)
	}
	for _, n := range []*netns.Net{w, other} {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat("/run/netns/" + n.Host(0).Namespace); err == nil {
			t.Errorf("%s is still there", n.Host(0).Namespace)
		}
	}
	for _, name := range devices(t) {
		if !slices.Contains(before, name) && strings.HasPrefix(name, "sw") {
			t.Errorf("device %s left behind", name)
		}
	}
}

// TestSweepRemovesWhatTheDeadLeft plants a namespace and a bridge of a pid that
// does not exist.
func TestSweepRemovesWhatTheDeadLeft(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	const space, bridge = "swzzzzz-1n0", "swzzzzz-1b" // pid 60 466 175: beyond any limit
	for _, args := range [][]string{{"netns", "add", space}, {"link", "add", bridge, "type", "bridge"}} {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	w, err := netns.New(4, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if _, err := os.Stat("/run/netns/" + space); err == nil {
		t.Errorf("%s was not swept", space)
	}
	if slices.Contains(devices(t), bridge) {
		t.Errorf("%s was not swept", bridge)
	}
}

func devices(t *testing.T) []string {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	return names
}
