package simnet

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Transport is a memberlist transport on one port of a host, for packets and streams.
type Transport struct {
	host     *Host
	port     uint16
	listener net.Listener
	socket   *packetSocket
	streams  chan net.Conn

	done chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*Transport)(nil)

// Transport opens the port, which must not be 0. It ends with Shutdown or with the host.
func (h *Host) Transport(port int) (*Transport, error) {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	listener, err := h.listen(h.Addr(port))
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	portNumber := uint16(listener.addr.Port)
	socket := &packetSocket{host: h, port: portNumber, packets: make(chan *memberlist.Packet, maxReceivedPackets)}
	h.packetSockets[portNumber] = socket
	t := &Transport{host: h, port: portNumber, listener: listener, socket: socket, streams: make(chan net.Conn), done: make(chan struct{})}
	t.wg.Go(t.accept)
	return t, nil
}

// accept runs until the listener closes, because of Shutdown or a crash.
func (t *Transport) accept() {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			return
		}
		select {
		case t.streams <- c:
		case <-t.done:
			_ = c.Close()
			return
		}
	}
}

// FinalAdvertiseAddr returns the address of the host and the port.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.host.machine.ip.AsSlice(), int(t.port), nil
}

// WriteTo sends a packet.
func (t *Transport) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	return now, t.host.sendPacket(t.port, b, addr)
}

// WriteToAddress sends a packet.
func (t *Transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// PacketCh returns the channel of received packets.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.socket.packets }

// DialTimeout opens a stream.
func (t *Transport) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return t.host.DialTimeout(addr, d)
}

// DialAddressTimeout opens a stream.
func (t *Transport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, d)
}

// StreamCh returns the channel of accepted streams.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown closes the port and returns after its goroutine has ended.
func (t *Transport) Shutdown() error {
	t.once.Do(func() {
		close(t.done)
		_ = t.listener.Close()
		t.host.network.mu.Lock()
		t.socket.close()
		t.host.network.mu.Unlock()
	})
	t.wg.Wait()
	return nil
}
