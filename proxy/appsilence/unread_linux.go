package appsilence

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// countUnread returns the number of the requests that the app has not read. It works only for an
// app in this network namespace, because the kernel then shows the app's side of the connection. A
// request is unread if the app's receive queue contains bytes, or if no process has accepted the
// connection. For a request that may have a body only the second condition counts, because an app
// may respond without reading the body.
func countUnread(conns []waitingConn) (n int) {
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(path) //nolint:gosec // one of the two
		if err != nil {
			continue
		}
		n += unreadIn(f, conns)
		_ = f.Close()
	}
	return n
}

// unreadIn counts the unread requests in one table of the kernel (see proc_net_tcp.txt in the
// kernel documentation).
func unreadIn(table io.Reader, conns []waitingConn) (n int) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		local, ok := kernelAddr(f[1])
		if !ok {
			continue
		}
		i := slices.IndexFunc(conns, func(c waitingConn) bool { return c.remote == local })
		if i < 0 {
			continue
		}
		remote, ok := kernelAddr(f[2])
		if !ok {
			continue
		}
		i = slices.IndexFunc(conns, func(c waitingConn) bool { return c.remote == local && c.local == remote })
		if i < 0 {
			continue
		}
		_, queue, _ := strings.Cut(f[4], ":")
		bytes, err := strconv.ParseUint(queue, 16, 64)
		accepted := f[9] != "0"
		if err == nil && (!accepted || bytes > 0 && conns[i].safe) {
			n++
		}
	}
	return n
}

// littleEndian reports whether the machine is little-endian.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// kernelAddr parses an address as the kernel prints it: 32-bit words in the byte order of the
// machine, and the port.
func kernelAddr(s string) (a netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	p, failed := strconv.ParseUint(port, 16, 16)
	if err != nil || failed != nil || len(b)%4 != 0 {
		return a, false
	}
	if littleEndian {
		for w := range slices.Chunk(b, 4) {
			slices.Reverse(w)
		}
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(p)), ok
}
