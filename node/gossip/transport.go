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
	// maxPacket is the maximum size of a packet. packetBuffer is the requested size of the receive buffer
	// of the kernel; the kernel may allow less.
	maxPacket    = 64 << 10
	packetBuffer = 2 << 20
	// acceptPause is the pause after a failed accept. It doubles up to maxAcceptPause.
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// transport is the gossip port, TCP and UDP. It corresponds to NetTransport of memberlist, except
// that it reads packets into one buffer, where NetTransport allocates 64 KiB for each packet, and
// avoids the scheduler overhead of system calls (see readFrom).
type transport struct {
	tcp     *net.TCPListener
	udp     *net.UDPConn
	raw     syscall.RawConn // of udp
	isIPv4  bool            // udp is an IPv4 socket
	packets chan *memberlist.Packet
	streams chan net.Conn
	log     *log.Logger
	done    chan struct{} // closed by Shutdown
	once    sync.Once
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// openSockets opens the gossip port for TCP and UDP. If port is 0, the free TCP port may be in use
// for UDP; it then tries again.
func openSockets(host netip.Addr, port int, l *log.Logger) (*transport, error) {
	tries := 1
	if port == 0 {
		tries = 10
	}
	for {
		s, err := listen(host, port, l)
		if tries--; err == nil {
			return s, nil
		}
		if tries == 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("gossip: listen: %w", err)
		}
	}
}

// listen opens the TCP and the UDP port with the same number. If port is 0, it selects a free one.
func listen(host netip.Addr, port int, l *log.Logger) (*transport, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(host, uint16(port))))
	if err != nil {
		return nil, err
	}
	s := &transport{
		tcp: tcp, log: l,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), done: make(chan struct{}),
	}
	if s.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(host, uint16(s.port())))); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	if s.raw, err = s.udp.SyscallConn(); err != nil {
		return nil, errors.Join(err, tcp.Close(), s.udp.Close())
	}
	for room := packetBuffer; room > 0 && s.udp.SetReadBuffer(room) != nil; {
		room /= 2
	}
	if at, ok := s.udp.LocalAddr().(*net.UDPAddr); ok {
		s.isIPv4 = at.AddrPort().Addr().Unmap().Is4()
	}
	s.wg.Go(s.acceptLoop)
	s.wg.Go(s.receiveLoop)
	return s, nil
}

// port returns the open port.
func (s *transport) port() int {
	if at, ok := s.tcp.Addr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}

// acceptLoop accepts streams until Shutdown.
func (s *transport) acceptLoop() {
	pause := acceptPause
	for {
		c, err := s.tcp.AcceptTCP()
		if err == nil {
			pause = acceptPause
			select {
			case s.streams <- c:
			case <-s.done:
				_ = c.Close()
				return
			}
			continue
		}
		select {
		case <-s.done:
			return
		case <-time.After(pause):
		}
		s.log.Printf("[ERR] memberlist: Error accepting TCP connection: %v", err)
		pause = min(2*pause, maxAcceptPause)
	}
}

// receiveLoop receives packets until Shutdown.
func (s *transport) receiveLoop() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := s.readFrom(buf)
		at := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.Printf("[ERR] memberlist: Error reading UDP packet: %v", err)
			select { // a permanent error must not cause a busy loop
			case <-s.done:
				return
			case <-time.After(acceptPause):
			}
			continue
		case n == 0:
			continue // not a message
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		select {
		case s.packets <- &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: net.UDPAddrFromAddrPort(from), Timestamp: at}:
		case <-s.done:
			return
		}
	}
}

// FinalAdvertiseAddr returns the advertised address, which is always configured.
func (s *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: advertise %q: %w", ip, err)
	}
	return net.IP(addr.Unmap().AsSlice()), port, nil
}

// WriteTo sends a packet.
func (s *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return s.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet.
func (s *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil { // a host name
		at, unknown := net.ResolveUDPAddr("udp", a.Addr)
		if unknown != nil {
			return time.Time{}, unknown
		}
		to = at.AddrPort()
	}
	err = s.writeTo(b, to)
	return time.Now(), err
}

// PacketCh returns the channel of received packets.
func (s *transport) PacketCh() <-chan *memberlist.Packet { return s.packets }

// StreamCh returns the channel of streams that other hosts open.
func (s *transport) StreamCh() <-chan net.Conn { return s.streams }

// DialTimeout opens a stream.
func (s *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return s.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream.
func (s *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.Dial("tcp", a.Addr)
}

// Shutdown closes the port. It returns when no packet or stream arrives any more.
func (s *transport) Shutdown() error {
	s.once.Do(func() {
		close(s.done)
		_ = s.tcp.Close() // an error has no effect
		_ = s.udp.Close()
	})
	s.wg.Wait()
	return nil
}
