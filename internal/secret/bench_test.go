package secret_test

import (
	"net"
	"testing"

	"shardway/internal/secret"
)

// BenchmarkResumed measures a resumed handshake between two nodes, both sides together.
func BenchmarkResumed(b *testing.B) {
	l := newList()
	seal := func(node string) *secret.TLSWrapper {
		tr, err := secret.Derive(l, node)
		if err != nil {
			b.Fatal(err)
		}
		return secret.NewTLSWrapper(tr)
	}
	dialer, server := seal("a"), seal("b")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				if s, err := server.Server(b.Context(), raw); err == nil {
					_ = exchangeByte(s)
					_ = s.Close()
				}
			}()
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		raw, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		c, err := dialer.Client(b.Context(), raw, "b")
		if err != nil {
			b.Fatal(err)
		}
		if err := exchangeByte(c); err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}
