//go:build linux

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/wsresume"
)

// Sizes of these tests, set by make bench-websockets: active connections, rolling
// restarts, and idle connections that move at once. The usual run has few.
const (
	socketsVariable = "SHARDWAY_E2E_SOCKETS"
	rollsVariable   = "SHARDWAY_E2E_SOCKET_ROLLS"
	idleVariable    = "SHARDWAY_E2E_IDLE_SOCKETS"
)

func sizeOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// idleConn is a client without a goroutine.
type idleConn struct {
	net.Conn
	r   *bufio.Reader
	saw wsresume.Client
}

func dialIdle(addr, key, name string) (*idleConn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &idleConn{conn, bufio.NewReaderSize(conn, 512), wsresume.Client{Name: name}}
	_, err = fmt.Fprintf(conn, "GET /?client=%s&key=%s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", name, key)
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(s.r, nil) //nolint:bodyclose // there is none after 101
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(resp.Status + " " + resp.Header.Get("Shardway-Error"))
	}
	return s, err
}

// exchange sends the next number, and reads the response.
func (s *idleConn) exchange() error {
	s.saw.Sent++
	if err := s.send(strconv.FormatUint(s.saw.Sent, 10)); err != nil {
		return err
	}
	op, b, err := s.next()
	if err != nil || op != 0x1 {
		return fmt.Errorf("%s: frame %x %q, %v", s.saw.Name, op, b, err) //nolint:errorlint // there may be none
	}
	s.saw.Received = append(s.saw.Received, numberOf(string(b)))
	return nil
}

// askToClose asks the app to close.
func (s *idleConn) askToClose() error {
	s.saw.Sent++
	if err := s.send(wsresume.ClosePrefix + strconv.FormatUint(s.saw.Sent, 10)); err != nil {
		return err
	}
	if op, b, err := s.next(); err != nil || op != 0x8 || len(b) < 2 || int(b[0])<<8|int(b[1]) != 1000 {
		s.saw.Err = fmt.Sprintf("frame %x %q, %v", op, b, err)
	}
	return s.Close()
}

// send sends a text with the mask 0.
func (s *idleConn) send(text string) error {
	_, err := s.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))
	return err
}

func (s *idleConn) next() (op byte, b []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(s.r, head[:]); err != nil {
		return 0, nil, err
	}
	b = make([]byte, head[1])
	_, err = io.ReadFull(s.r, b)
	return head[0] & 0xf, b, err
}

// atOnce calls do for each of n, a few at a time.
func atOnce(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var working sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		working.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				errs[w] = do(i)
			}
		})
	}
	working.Wait()
	must(t, errors.Join(errs...))
}

// memoryUse is the memory of a process.
type memoryUse struct {
	bytes, files int
	stacks, heap float64 // part of these bytes, as the runtime reports
}

func (x *resumeTest) holds(t *testing.T, node *cluster.Node) memoryUse {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", node.Process().Pid))
	must(t, err)
	runtime := func(name string) float64 { return x.Sum(t, []*cluster.Node{node}, "go_memstats_"+name+"_bytes") }
	return memoryUse{residentBytes(t, node), len(files), runtime("stack_inuse"), runtime("heap_alloc")}
}

// wantLittleMemory checks that an idle node uses no more memory for each of n idle connections
// than permitted.
func wantLittleMemory(t *testing.T, what string, more, n int) {
	t.Helper()
	const most = 12 << 10
	if more > most*n {
		t.Errorf("%s: an idle socket holds %d bytes at rest, want at most %d", what, more/n, most)
	}
}

// rest returns when the memory of each node has not changed by 1 % within a second, for
// longer than the interval at which a node releases memory.
func (x *resumeTest) rest(t *testing.T, nodes ...*cluster.Node) {
	t.Helper()
	last, same := make([]int, len(nodes)), 0
	cluster.Await(t, "the memory use of the nodes is stable", func() error {
		for i, node := range nodes {
			now := residentBytes(t, node)
			if now < last[i]*99/100 || now > last[i]*101/100 {
				same = 0
			}
			last[i] = now
		}
		if same++; same < 12 {
			time.Sleep(time.Second)
			return fmt.Errorf("%d bytes, much the same for %d s", last, same)
		}
		return nil
	})
}

// each returns the additional memory of a process for each of n connections.
func (h memoryUse) each(before memoryUse, n int) string {
	kib := func(more float64) float64 { return more / 1024 / float64(n) }
	return fmt.Sprintf("%.1f KiB (stacks %.1f, heap with garbage %.1f), %.2f descriptors", kib(float64(h.bytes-before.bytes)),
		kib(h.stacks-before.stacks), kib(h.heap-before.heap), float64(h.files-before.files)/float64(n))
}

// cpuUse is the CPU time of processes so far, by node, app and this process.
type cpuUse map[string]processors

// processors is the CPU time of a process, and the time that its threads waited for a
// processor.
type processors struct{ had, waited time.Duration }

func (x *resumeTest) used(t *testing.T) cpuUse {
	t.Helper()
	w := cpuUse{"this test": processorsOf(t, os.Getpid())}
	for _, node := range x.Nodes() {
		w[node.ID] = processorsOf(t, node.Process().Pid)
		if a := x.apps[node]; a != nil {
			w["app of "+node.ID] = processorsOf(t, a.process.Process.Pid)
		}
	}
	return w
}

func processorsOf(t *testing.T, pid int) (p processors) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	must(t, err)
	for _, thread := range threads {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, thread.Name()))
		if err != nil {
			continue // the process has ended
		}
		var had, waited time.Duration
		_, err = fmt.Sscan(string(line), &had, &waited)
		must(t, err)
		p = processors{p.had + had, p.waited + waited}
	}
	return p
}

// since returns the increase for each of n connections.
func (w cpuUse) since(before cpuUse, n int) string {
	each := func(all time.Duration) time.Duration { return (all / time.Duration(n)).Round(10 * time.Microsecond) }
	var of []string
	for name, now := range w {
		of = append(of, fmt.Sprintf("%s %v and %v", name, each(now.had-before[name].had), each(now.waited-before[name].waited)))
	}
	slices.Sort(of)
	return "of processors, and in line for them: " + strings.Join(of, ", ")
}

// TestIdleWebSocketsMove has idle connections on one shard, and on many, whose node is
// drained. All of them move to the next owner before their resume timeout, while other
// requests are served. The test prints the cost of an idle connection.
func TestIdleWebSocketsMove(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	for name, c := range map[string]struct {
		shards int           // 0 means 2 000
		gently time.Duration // zero means at once
	}{
		"1 shard":             {1, 0},
		"1000 shards":         {1000, 0},
		"1000 shards, gently": {1000, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			idleSocketsMove(t, c.shards, sizeOf(t, idleVariable, 64), c.gently)
		})
	}
}

func idleSocketsMove(t *testing.T, shards, many int, gently time.Duration) {
	t.Helper()
	coder := []string{os.Args[0], wsresume.Coder}
	x := startResumeWith(t, resumeOptions{apps: [][]string{coder, coder}, shards: 2000})
	shardMap := x.AwaitServedBy(t, x.nodes...)
	gateway, owner := x.front[1], x.nodes[0]
	keys := shardMap.Keys(owner.ID, 1)[:shards]
	list := make([]*idleConn, 0, many+200)
	open := func(n int) {
		from := len(list)
		list = list[:from+n]
		atOnce(t, n, func(i int) (err error) {
			if list[from+i], err = dialIdle(gateway.Addr, keys[(from+i)%len(keys)], fmt.Sprint("c", from+i)); err == nil {
				err = list[from+i].exchange()
			}
			return err
		})
	}
	open(min(many, 200)) // memory that does not depend on the number of connections is allocated after some
	rested := func() {}
	if many >= 1000 { // with fewer connections, temporary memory dominates
		rested = func() { x.rest(t, gateway, owner) }
	}
	rested()
	beforeGateway, beforeOwner := x.holds(t, gateway), x.holds(t, owner)
	open(many)
	cluster.Await(t, "no goroutine waits for idle connections", func() error {
		for _, node := range []*cluster.Node{gateway, owner} {
			if parked := int(x.Sum(t, []*cluster.Node{node}, "shardway_idle_websocket_directions")); parked != 2*len(list) {
				return fmt.Errorf("%d directions of %d sockets are parked at %s", parked, len(list), node.ID)
			}
		}
		return nil
	})
	each := func(when string) {
		t.Logf("%d idle sockets on %d shards, %s; each: ingress %s; owner %s", len(list), shards, when,
			x.holds(t, gateway).each(beforeGateway, many), x.holds(t, owner).each(beforeOwner, many))
	}
	each("just opened")
	rested()
	each("at rest")
	if many >= 8000 { // with fewer connections, the runtime returns no memory
		wantLittleMemory(t, "ingress", x.holds(t, gateway).bytes-beforeGateway.bytes, many)
		wantLittleMemory(t, "owner", x.holds(t, owner).bytes-beforeOwner.bytes, many)
	}
	others := shardMap.Keys(x.nodes[1].ID, 1)
	quiet := startKeyRequests(t, gateway.Addr, others)
	cluster.Await(t, "requests with idle WebSockets", quiet.some(500))
	t.Logf("with idle WebSockets: %s", quiet.end(t))
	if many >= 1000 {
		measureOnBusyMachine(t, gateway.Addr, others)
	}
	background := startKeyRequests(t, gateway.Addr, others)
	_, earlier := x.gaps(t) // shards that moved while the connections were opened
	startedAt, used := history.Now(), x.used(t)
	if out, code := shardway(t, "drain", owner.ID, "--wait", "--admin", owner.Admin, "--idle-first", gently.String()); code != 0 {
		t.Fatalf("drain %s: exit %d, %s", owner.ID, code, out)
	}
	atOnce(t, len(list), func(i int) error { return list[i].exchange() })
	t.Logf("each hand-off took %s", x.used(t).since(used, len(list)))
	conns, err := wsresume.Read(x.dir)
	must(t, err)
	last := startedAt
	for _, l := range conns {
		last = max(last, l.Begin)
	}
	if elapsed := time.Duration(last - startedAt); gently > 0 && elapsed >= gently {
		t.Errorf("the sockets moved within %v, as the time was over, want within %v", elapsed, gently)
	}
	x.conns = nil
	_, planned := x.wantPlanned(t, startedAt)
	planned -= earlier
	if planned < len(list) || planned > len(list) && x.StarvedTime(startedAt) < time.Second {
		t.Errorf("%d hand-offs of %d sockets, want one of each", planned, len(list))
	}
	t.Logf("%d hand-offs (%d before) within %v of the drain command; requests in the meantime: %s", planned, earlier, time.Duration(last-startedAt).Round(time.Millisecond), background.end(t))
	atOnce(t, len(list), func(i int) error { return list[i].askToClose() })
	x.judgeIdle(t, list)
}

func (x *resumeTest) judgeIdle(t *testing.T, list []*idleConn) {
	t.Helper()
	var saw []wsresume.Client
	for _, s := range list {
		saw = append(saw, s.saw)
	}
	cluster.Await(t, "the apps see all sockets end as they should", func() error {
		conns, err := wsresume.Read(x.dir)
		if wrong := wsresume.Check(saw, conns); len(wrong) > 0 {
			err = errors.Join(err, fmt.Errorf("%d complaints: %s", len(wrong), wrong[0]))
		}
		return err
	})
}
