//go:build linux

package netns_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/netns"
	"shardway/e2e/kit/procgroup"
)

// TestMain can run the test binary as a process in a host. It may be a server that
// responds to each line, or a client that sends a line per line of its input and prints
// "yes" or "no" for the response. It may be a dialer that dials for each line and prints
// the result, an echo server for datagrams, or a pinger that sends many datagrams for
// each line and prints the number of echoes.
func TestMain(m *testing.M) {
	switch os.Getenv("NETNS_ROLE") {
	case "server":
		runServer(os.Getenv("NETNS_ADDR"))
	case "client":
		runTalker(os.Getenv("NETNS_ADDR"))
	case "echo":
		runEcho(os.Getenv("NETNS_ADDR"))
	case "pinger":
		runPing(os.Getenv("NETNS_ADDR"))
	case "dialer":
		runDial(os.Getenv("NETNS_ADDR"))
	default:
		m.Run()
	}
}

func runServer(addr string) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "listening")
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(conn, conn) }()
	}
}

func runTalker(addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	in, answers := bufio.NewScanner(os.Stdin), bufio.NewReader(conn)
	_, _ = fmt.Fprintln(os.Stdout, "connected")
	for in.Scan() {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprintln(conn, in.Text())
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

// pings is the number of datagrams that a pinger sends per line.
const pings = 200

func runEcho(addr string) {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "listening")
	for b := make([]byte, 100); ; {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(b[:n], from)
	}
}

// runPing waits after each datagram, so that no buffer overflows.
func runPing(addr string) {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		panic(err)
	}
	in, b := bufio.NewScanner(os.Stdin), make([]byte, 100)
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	for in.Scan() {
		back := 0
		for i := range pings {
			_, _ = fmt.Fprint(conn, i)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := conn.Read(b); err == nil {
				back++
			}
		}
		_, _ = fmt.Fprintln(os.Stdout, back)
	}
}

func runDial(addr string) {
	in := bufio.NewScanner(os.Stdin)
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	for in.Scan() {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		switch {
		case err == nil:
			_ = conn.Close()
			_, _ = fmt.Fprintln(os.Stdout, "connected")
		case errors.Is(err, syscall.ECONNREFUSED):
			_, _ = fmt.Fprintln(os.Stdout, "refused")
		default:
			_, _ = fmt.Fprintln(os.Stdout, err)
		}
	}
}

// start runs this binary in h in a role, and returns its input and output.
func start(t *testing.T, h *netns.Host, role, addr string) (io.Writer, *bufio.Reader) {
	t.Helper()
	args := h.Command(os.Args[0])
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "NETNS_ROLE="+role, "NETNS_ADDR="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := procgroup.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = wait()
	})
	r := bufio.NewReader(out)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatalf("%s in %s did not start: %v", role, h.Namespace, err)
	}
	return in, r
}

// The test sends over one connection from host 0 to host 1.
func TestNetworkFaultsAreInjectedAndEnded(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	network, err := netns.New(1, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	start(t, network.Host(1), "server", "0.0.0.0:9000")
	in, out := start(t, network.Host(0), "client", network.Host(1).Data+":9000")
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
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", network.Host(1).Control+":9000")
		if err != nil {
			t.Fatalf("%s: the control network is cut too: %v", when, err)
		}
		_ = conn.Close()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	says("at first", "yes")
	must(network.Isolate(2))
	says("another host isolated", "yes")
	must(network.Heal())
	must(network.Partition([]int{0, 1}, []int{2}))
	says("in the same half", "yes")
	must(network.Heal())
	must(network.Bridge(1, []int{0}, []int{2}))
	says("on the bridge", "yes")
	must(network.Heal())
	if err := network.Bridge(1, []int{0, 1}, []int{2}); err == nil {
		t.Error("a host may be in the middle and on a side")
	}
	for _, c := range []struct {
		name  string
		apply func() error
	}{
		{"isolated", func() error { return network.Isolate(1) }},
		{"requests blocked", func() error { return network.Block(0, 1) }},
		{"responses blocked", func() error { return network.Block(1, 0) }},
		{"cut", func() error { return network.DropBoth(0, 1) }},
		{"in another half", func() error { return network.Partition([]int{0, 2}, []int{1}) }},
		{"across a bridge", func() error { return network.Bridge(2, []int{0}, []int{1}) }},
		// Two faults may block the same path. Heal once failed for the second of them.
		{"cut by two faults", func() error { return errors.Join(network.DropBoth(2, 1), network.Partition([]int{0, 2}, []int{1})) }},
		{"all lost", func() error { return network.DropPercent(1, 100) }},
		{"all lost at the other end", func() error { return network.DropPercent(0, 100) }},
	} {
		must(c.apply())
		says(c.name, "no")
		control(c.name)
		must(network.Heal())
		// A retransmission after a fault takes some time, so the test polls.
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

// newFilteredNet returns a network for a test with packet filters.
func newFilteredNet(t *testing.T, serial, hosts int) *netns.Net {
	t.Helper()
	if err := netns.Filters(); err != nil {
		t.Skip(err)
	}
	network, err := netns.New(serial, hosts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	return network
}

// Packets from host 0 to host 1 are refused: its connection breaks, new ones are refused,
// all others work. Then the fault ends.
func TestResetForgesRST(t *testing.T) {
	network := newFilteredNet(t, 5, 3)
	there, back := network.Host(1).Data+":9000", network.Host(0).Data+":9000"
	for _, h := range []int{0, 1} {
		start(t, network.Host(h), "server", "0.0.0.0:9000")
	}
	ask := func(in io.Writer, out *bufio.Reader) string {
		t.Helper()
		_, _ = fmt.Fprintln(in, "a word")
		got, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(got)
	}
	in, out := start(t, network.Host(0), "client", there)
	dialIn, dialOut := start(t, network.Host(0), "dialer", there)
	otherIn, otherOut := start(t, network.Host(2), "dialer", there)
	answerIn, answerOut := start(t, network.Host(1), "dialer", back)
	for _, c := range []struct {
		when                                   string
		change                                 func() error
		established, anew, fromAnother, inward string
	}{
		{"at first", func() error { return nil }, "yes", "connected", "connected", "connected"},
		// Responses of host 0 are packets to host 1 as well.
		{"while reset", func() error { return network.Reset(0, 1) }, "no", "refused", "connected", "i/o timeout"},
		{"healed", network.Heal, "no", "connected", "connected", "connected"},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if got := ask(in, out); got != c.established {
			t.Errorf("%s, the connection: %q, want %q", c.when, got, c.established)
		}
		if got := ask(dialIn, dialOut); got != c.anew {
			t.Errorf("%s, a new one: %q, want %q", c.when, got, c.anew)
		}
		if got := ask(otherIn, otherOut); got != c.fromAnother {
			t.Errorf("%s, one from another host: %q, want %q", c.when, got, c.fromAnother)
		}
		if got := ask(answerIn, answerOut); !strings.HasSuffix(got, c.inward) {
			t.Errorf("%s, one from host 1: %q, want %q", c.when, got, c.inward)
		}
	}
}

// Host 0 sends datagrams to host 1, which loses half of the received and half of the sent
// packets. So a quarter of the echoes arrives.
func TestDropPercentDropsAShare(t *testing.T) {
	network := newFilteredNet(t, 6, 2)
	start(t, network.Host(1), "echo", "0.0.0.0:9000")
	in, out := start(t, network.Host(0), "pinger", network.Host(1).Data+":9000")
	back := func() int {
		t.Helper()
		_, _ = fmt.Fprintln(in, "again")
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// A busy machine delays some.
	if n := back(); n < pings*9/10 {
		t.Fatalf("%d of %d came back at first", n, pings)
	}
	if err := network.DropPercent(1, 50); err != nil {
		t.Fatal(err)
	}
	// The expected value is 50, with a standard deviation of 6.
	if n := back(); n < pings/10 || n > pings/2 {
		t.Errorf("%d of %d came back, want about %d", n, pings, pings/4)
	}
	if err := network.Heal(); err != nil {
		t.Fatal(err)
	}
	if n := back(); n < pings*9/10 {
		t.Errorf("%d of %d came back when healed", n, pings)
	}
}

// Close removes everything, and a sweep keeps the networks of live processes.
func TestCloseRemovesEverything(t *testing.T) {
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
	// Other processes test with their own networks in the meantime.
	own := "sw" + strconv.FormatInt(int64(os.Getpid()), 36) + "-"
	for _, name := range devices(t) {
		if !slices.Contains(before, name) && strings.HasPrefix(name, own) {
			t.Errorf("device %s left behind", name)
		}
	}
}

// The test plants a namespace and a bridge of a process ID that does not exist.
func TestNetworksOfDeadProcessesAreRemoved(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	const space, bridge = "swzzzzz-1n0", "swzzzzz-1b" // process ID 60 466 175: higher than any
	for _, args := range [][]string{{"netns", "add", space}, {"link", "add", bridge, "type", "bridge"}} {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	network, err := netns.New(4, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = network.Close() }()
	if _, err := os.Stat("/run/netns/" + space); err == nil {
		t.Errorf("%s was not swept", space)
	}
	if slices.Contains(devices(t), bridge) {
		t.Errorf("%s was not swept", bridge)
	}
}

// Two networks are created at once after a test that died.
func TestConcurrentRemovalsOfOrphansSucceed(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	for i := range 20 {
		space := fmt.Sprintf("swzzzzz-1n%d", i)
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", space).CombinedOutput(); err != nil {
			t.Fatalf("ip netns add: %v: %s", err, out)
		}
	}
	var both sync.WaitGroup
	for serial := range 2 {
		both.Go(func() {
			network, err := netns.New(7+serial, 1)
			if err != nil {
				t.Error(err)
				return
			}
			if err := network.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
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
