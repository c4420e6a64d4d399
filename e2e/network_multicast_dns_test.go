//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"

	"shardway/admin/api"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/netns"
)

// TestNodesFindEachOtherByMulticastDNS starts three nodes that know no address of each other, and a service that is
// announced from a fourth host. Another host of the network answers their queries as well, but it does not have the
// secret: no node may connect to the address that it names.
func TestNodesFindEachOtherByMulticastDNS(t *testing.T) {
	t.Parallel() // it waits for the nodes most of the time
	if err := netns.Available(); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	network, err := netns.New(int(networks.Add(1)), 4)
	must(t, err)
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	trap := listenForConnections(t, network.Gateway)
	liar := answerMulticastQueries(t, network.DataBridge(), trap.addr)
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Net: network, Secret: true})
	for range 3 {
		c.Prepare(t, "--join", "mdns", "--bootstrap-expect", "3").Start(t)
	}
	c.AwaitServing(t)

	service := announceFrom(t, network.Host(3), append([]string{
		"announce", "--name", "a", "--endpoint", "redis=" + network.Host(3).Data + ":6379", "--gossip", network.Host(3).Data + ":7950", "--join", "mdns", "--log-format", "json",
	}, c.SecretFlags(t, "service")...)...)
	want := []api.Endpoint{{Node: "a", Kind: api.KindMember, Name: "redis", Addr: network.Host(3).Data + ":6379"}}
	for _, node := range c.Nodes() {
		untilServices(t, node, service, want)
	}

	// All nodes end and return. The service finds them again.
	for _, node := range c.Nodes() {
		node.Kill(t)
	}
	service.untilLogs(t, "all nodes lost, joining again")
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	c.AwaitServing(t)
	untilServices(t, c.Node("b"), service, want)
	if counts := c.AwaitServing(t).Counts(); len(counts) != 3 || counts["a"] == 0 {
		t.Errorf("shards of each owner: %v", counts)
	}
	service.stop(t)
	untilServices(t, c.Node("c"), service, nil)
	if liar.answers.Load() == 0 {
		t.Error("no query reached the host without the secret, so this test shows nothing about it")
	}
	if visits := trap.count.Load(); visits > 0 {
		t.Errorf("the address of the host without the secret has received %d connections", visits)
	}
}

// connectionCounter counts the connections to an address.
type connectionCounter struct {
	addr  *net.TCPAddr
	count atomic.Int64
}

// listenForConnections listens on a free port of a host.
func listenForConnections(t *testing.T, host string) *connectionCounter {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	must(t, err)
	addr, isTCP := ln.Addr().(*net.TCPAddr)
	if !isTCP {
		t.Fatalf("listener at %v", ln.Addr())
	}
	v := &connectionCounter{addr: addr}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			v.count.Add(1)
			_ = conn.Close()
		}
	}()
	return v
}

// answerer counts its answers.
type answerer struct {
	mdns.Zone
	answers atomic.Int64
}

// Records implements mdns.Zone.
func (a *answerer) Records(question dns.Question) []dns.RR {
	records := a.Zone.Records(question)
	if len(records) > 0 {
		a.answers.Add(1)
	}
	return records
}

// answerMulticastQueries answers queries for nodes with another address, from a device of this machine.
func answerMulticastQueries(t *testing.T, device string, addr *net.TCPAddr) *answerer {
	t.Helper()
	iface, err := net.InterfaceByName(device)
	must(t, err)
	zone, err := mdns.NewMDNSService("liar", "_shardway._tcp", "local.", "liar.local.", addr.Port, []net.IP{addr.IP},
		[]string{"addr=" + addr.String(), "mac=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})
	must(t, err)
	a := &answerer{Zone: zone}
	server, err := mdns.NewServer(&mdns.Config{Zone: a, Iface: iface, Logger: log.New(io.Discard, "", 0)})
	must(t, err)
	t.Cleanup(func() { _ = server.Shutdown() })
	return a
}

// announced is a process that announces a service.
type announced struct {
	command *exec.Cmd
	log     lockedBuffer
}

// lockedBuffer is a buffer that a process may write to while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// announceFrom starts shardway with args on a host, until stop is called or the test ends.
func announceFrom(t *testing.T, host *netns.Host, args ...string) *announced {
	t.Helper()
	line := host.Command(append([]string{binaries(t).Node}, args...)...)
	a := &announced{command: exec.CommandContext(context.Background(), line[0], line[1:]...)}
	a.command.Stdout, a.command.Stderr = &a.log, &a.log
	must(t, a.command.Start())
	t.Cleanup(func() { _ = a.command.Process.Kill() })
	return a
}

// untilLogs waits until the process has logged a message.
func (a *announced) untilLogs(t *testing.T, message string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(a.log.String(), message); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no message %q\n%s", message, a.log.String())
		}
	}
}

// stop sends SIGTERM and waits for the end of the process.
func (a *announced) stop(t *testing.T) {
	t.Helper()
	must(t, a.command.Process.Signal(syscall.SIGTERM))
	if err := a.command.Wait(); err != nil {
		t.Errorf("announce: %v\n%s", err, a.log.String())
	}
}

// untilServices waits until a node shows exactly these endpoints of members that are not nodes.
func untilServices(t *testing.T, node *cluster.Node, service *announced, want []api.Endpoint) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := services(t.Context(), node)
		if err == nil && slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("node %s shows services %v (%v), want %v\n%s", node.ID, got, err, want, service.log.String())
		}
	}
}

// services returns the endpoints of members that are not nodes.
func services(ctx context.Context, node *cluster.Node) (found []api.Endpoint, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.Admin+"/v1/endpoints", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var list api.EndpointList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, err
	}
	for _, endpoint := range list.Endpoints {
		if endpoint.Kind == api.KindMember {
			found = append(found, endpoint)
		}
	}
	return found, nil
}
