package childproc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
)

// The ports of processes are below the kernel's default range for outgoing connections.
const (
	firstPort = 20_000
	lastPort  = 32_767
	portTries = 200
)

var errNoPort = errors.New("no free port of 127.0.0.1 was found between 20000 and 32767")

// freeAddress returns a free port of 127.0.0.1 that isUsed does not exclude. Another program can take it before the
// process listens on it, so the Supervisor checks the listener later.
func freeAddress(ctx context.Context, isUsed func(port uint16) bool) (netip.AddrPort, error) {
	var config net.ListenConfig
	for range portTries {
		port := uint16(firstPort + rand.IntN(lastPort-firstPort+1)) //nolint:gosec // no secret, and in range
		if isUsed(port) {
			continue
		}
		ln, err := config.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(int(port)))
		if err != nil {
			continue
		}
		_ = ln.Close()
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), nil
	}
	return netip.AddrPort{}, errNoPort
}
