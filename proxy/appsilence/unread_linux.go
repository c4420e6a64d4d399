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

// countUnread returns the number of requests that the app has not read. It works only for an app in
// this network namespace, because only then do the kernel tables contain the app's side of the
// connection. A request is unread if the app's receive queue contains bytes, or if no process has
// accepted the connection. For a request that may have a body, only the second condition is used,
// because an app may respond without reading the body.
func countUnread(conns []waitingConn) (count int) {
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.Open(path) //nolint:gosec // one of the two
		if err != nil {
			continue
		}
		count += countUnreadInTable(table, conns)
		_ = table.Close()
	}
	return count
}

// countUnreadInTable counts the unread requests in one kernel table, whose format is described in
// proc_net_tcp.txt of the kernel documentation. Fields 1 and 2 are the local and the remote address,
// field 4 contains the queue lengths, and field 9 is the inode, which is 0 for a connection that no
// process has accepted.
func countUnreadInTable(table io.Reader, conns []waitingConn) (count int) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		local, ok := parseKernelAddr(fields[1])
		if !ok {
			continue
		}
		i := slices.IndexFunc(conns, func(c waitingConn) bool { return c.remote == local })
		if i < 0 {
			continue
		}
		remote, ok := parseKernelAddr(fields[2])
		if !ok {
			continue
		}
		i = slices.IndexFunc(conns, func(c waitingConn) bool { return c.remote == local && c.local == remote })
		if i < 0 {
			continue
		}
		_, queue, _ := strings.Cut(fields[4], ":")
		queuedBytes, err := strconv.ParseUint(queue, 16, 64)
		accepted := fields[9] != "0"
		if err == nil && (!accepted || queuedBytes > 0 && conns[i].isSafeMethod) {
			count++
		}
	}
	return count
}

// littleEndian is true on a little-endian machine.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// parseKernelAddr parses an address in the kernel's notation: hexadecimal 32-bit words in the
// machine's byte order, a colon, and the port.
func parseKernelAddr(text string) (addr netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(text, ":")
	ipBytes, err := hex.DecodeString(host)
	portNumber, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(ipBytes)%4 != 0 {
		return addr, false
	}
	if littleEndian {
		for word := range slices.Chunk(ipBytes, 4) {
			slices.Reverse(word)
		}
	}
	ip, ok := netip.AddrFromSlice(ipBytes)
	return netip.AddrPortFrom(ip.Unmap(), uint16(portNumber)), ok
}
