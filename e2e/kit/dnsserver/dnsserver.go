// Package dnsserver is a DNS server for tests. It serves A and SRV records over UDP,
// which the test can change and which must not be cached (TTL 0). Other names do not
// exist.
package dnsserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Server responds until Close. Any number of goroutines may call its methods.
type Server struct {
	conn  net.PacketConn
	ended sync.WaitGroup

	mu            sync.Mutex
	addrsByName   map[string][]netip.Addr
	portByService map[string]uint16 // SRV records; their targets are all names below the service name
}

// New listens at an address, "host:port".
func New(ctx context.Context, addr string) (*Server, error) {
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return nil, fmt.Errorf("dnsserver: %w", err)
	}
	s := &Server{conn: conn, addrsByName: make(map[string][]netip.Addr), portByService: make(map[string]uint16)}
	s.ended.Go(s.serve)
	return s, nil
}

// Addr returns the address of the server.
func (s *Server) Addr() netip.AddrPort { return netip.MustParseAddrPort(s.conn.LocalAddr().String()) }

// Close stops the server.
func (s *Server) Close() error {
	err := s.conn.Close()
	s.ended.Wait()
	return err
}

// SetAddrs sets the addresses of a name. Without addresses, the name does not exist.
func (s *Server) SetAddrs(name string, addrs ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(addrs) == 0 {
		delete(s.addrsByName, name)
		return
	}
	s.addrsByName[name] = slices.Clone(addrs)
}

// AddService adds SRV records of _SERVICE._tcp.NAME with this port and every name that ends in
// .NAME.
func (s *Server) AddService(service string, port uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.portByService[service] = port
}

func (s *Server) serve() {
	for data := make([]byte, 4096); ; {
		n, from, err := s.conn.ReadFrom(data)
		if err != nil {
			return
		}
		if answer, err := s.respond(data[:n]); err == nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// respond returns the response to a query.
func (s *Server) respond(query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	records, exists := s.lookup(question)
	response := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question}, Answers: records,
	}
	if !exists {
		response.RCode = dnsmessage.RCodeNameError
	}
	return response.Pack()
}

// lookup returns the records for a question, and whether its name exists.
func (s *Server) lookup(question dnsmessage.Question) (records []dnsmessage.Resource, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))
	header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
	if port, ok := s.portByService[name]; ok {
		domain := name[strings.Index(name, "._tcp.")+len("._tcp"):]
		for target := range s.addrsByName {
			if strings.HasSuffix(target, domain) && question.Type == dnsmessage.TypeSRV {
				records = append(records, dnsmessage.Resource{Header: header, Body: &dnsmessage.SRVResource{Port: port, Target: dnsmessage.MustNewName(target + ".")}})
			}
		}
		return records, true
	}
	addrs, ok := s.addrsByName[name]
	for _, addr := range addrs {
		if question.Type == dnsmessage.TypeA && addr.Is4() {
			records = append(records, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		}
	}
	return records, ok
}
