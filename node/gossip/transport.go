package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxPacketBytes is the maximum size of a packet. receiveBufferBytes is the requested size of the receive buffer
	// of the kernel; the kernel may allow less.
	maxPacketBytes     = 64 << 10
	receiveBufferBytes = 2 << 20
	// acceptPause is the pause after a failed accept. It doubles up to maxAcceptPause.
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// transport is the gossip port, TCP and UDP. It corresponds to NetTransport of memberlist, except
// that it reads packets into one buffer, where NetTransport allocates 64 KiB for each packet, and
// avoids the scheduler overhead of system calls (see readFrom).
type transport struct {
	tcp          *net.TCPListener
	udp          *net.UDPConn
	rawUDP       syscall.RawConn // of udp
	isIPv4       bool            // udp is an IPv4 socket
	packets      chan *memberlist.Packet
	streams      chan net.Conn
	log          *log.Logger
	done         chan struct{} // closed by Shutdown
	shutdownOnce sync.Once
	wg           sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// openSockets opens the gossip port for TCP and UDP. If port is 0, the selected TCP port may be in
// use for UDP; openSockets then tries up to 10 ports.
func openSockets(host netip.Addr, port int, logger *log.Logger) (*transport, error) {
	attemptsLeft := 1
	if port == 0 {
		attemptsLeft = 10
	}
	for {
		opened, err := listen(host, port, logger)
		if attemptsLeft--; err == nil {
			return opened, nil
		}
		if attemptsLeft == 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("gossip: listen: %w", err)
		}
	}
}

// listen opens the TCP and the UDP port with the same number. If port is 0, it selects a free one.
func listen(host netip.Addr, port int, logger *log.Logger) (*transport, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(host, uint16(port))))
	if err != nil {
		return nil, err
	}
	t := &transport{
		tcp: tcp, log: logger,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), done: make(chan struct{}),
	}
	if t.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(host, uint16(t.port())))); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	if t.rawUDP, err = t.udp.SyscallConn(); err != nil {
		return nil, errors.Join(err, tcp.Close(), t.udp.Close())
	}
	for bufferBytes := receiveBufferBytes; bufferBytes > 0 && t.udp.SetReadBuffer(bufferBytes) != nil; {
		bufferBytes /= 2
	}
	if addr, ok := t.udp.LocalAddr().(*net.UDPAddr); ok {
		t.isIPv4 = addr.AddrPort().Addr().Unmap().Is4()
	}
	t.wg.Go(t.acceptLoop)
	t.wg.Go(t.receiveLoop)
	return t, nil
}

// port returns the open port.
func (t *transport) port() int {
	if addr, ok := t.tcp.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// acceptLoop accepts streams until Shutdown.
func (t *transport) acceptLoop() {
	pause := acceptPause
	for {
		conn, err := t.tcp.AcceptTCP()
		if err == nil {
			pause = acceptPause
			select {
			case t.streams <- conn:
			case <-t.done:
				_ = conn.Close()
				return
			}
			continue
		}
		select {
		case <-t.done:
			return
		case <-time.After(pause):
		}
		t.log.Printf("[ERR] memberlist: Error accepting TCP connection: %v", err)
		pause = min(2*pause, maxAcceptPause)
	}
}

// receiveLoop receives packets until Shutdown.
func (t *transport) receiveLoop() {
	buf := make([]byte, maxPacketBytes)
	for {
		n, from, err := t.readFrom(buf)
		receivedAt := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			t.log.Printf("[ERR] memberlist: Error reading UDP packet: %v", err)
			select { // a permanent error must not cause a busy loop
			case <-t.done:
				return
			case <-time.After(acceptPause):
			}
			continue
		case n == 0:
			continue // not a message
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: net.UDPAddrFromAddrPort(from), Timestamp: receivedAt}:
		case <-t.done:
			return
		}
	}
}

// FinalAdvertiseAddr returns the advertised address, which is always configured.
func (t *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: advertise %q: %w", ip, err)
	}
	return net.IP(addr.Unmap().AsSlice()), port, nil
}

// WriteTo sends a packet.
func (t *transport) WriteTo(packet []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(packet, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet.
func (t *transport) WriteToAddress(packet []byte, addr memberlist.Address) (time.Time, error) {
	dest, err := netip.ParseAddrPort(addr.Addr)
	if err != nil { // a host name
		resolved, resolveErr := net.ResolveUDPAddr("udp", addr.Addr)
		if resolveErr != nil {
			return time.Time{}, resolveErr
		}
		dest = resolved.AddrPort()
	}
	err = t.writeTo(packet, dest)
	return time.Now(), err
}

// PacketCh returns the channel of received packets.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh returns the channel of streams that other hosts open.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout opens a stream.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream.
func (t *transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	return dialer.Dial("tcp", addr.Addr)
}

// Shutdown closes the port. It returns when no packet or stream arrives any more.
func (t *transport) Shutdown() error {
	t.shutdownOnce.Do(func() {
		close(t.done)
		_ = t.tcp.Close() // an error has no effect
		_ = t.udp.Close()
	})
	t.wg.Wait()
	return nil
}
