//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
)

// haproxyConfig configures a proxy with the same tasks as a node. Its arguments are the
// address without TLS, the server lines, the address with TLS, and the certificate file.
// HAProxy logs nothing by default, and its pools hold enough idle connections for every
// case.
const haproxyConfig = `
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 2s
  http-reuse always
  option forwardfor
  unique-id-format %%{+X}o\ %%ci:%%cp_%%fi:%%fp_%%Ts_%%rt:%%pid
frontend in
  bind %[1]s backlog 4096
  bind %[3]s ssl crt %[4]s backlog 4096
  default_backend app
  http-request set-header X-Request-Id %%[unique-id] unless { req.hdr(X-Request-Id) -m found }
  http-request set-header X-Forwarded-Host %%[req.hdr(host)]
  http-request set-header X-Forwarded-Proto http
  http-request add-header Via "1.1 haproxy"
  http-response add-header Via "1.1 haproxy"
backend app
  balance hdr(X-Shard-Key)
  hash-type consistent
%[2]s
`

// startHAProxySetups starts one HAProxy process with one thread in front of the backends. It returns
// two setups: its address without TLS, and its address with TLS. If HAProxy is not
// installed, the error is a *notInstalledError.
func (b *benchRun) startHAProxySetups(ctx context.Context) ([]*setup, error) {
	program, err := find("haproxy", "haproxy")
	if err != nil {
		return nil, err
	}
	addr, err := b.addr() //nolint:contextcheck // probing a port of this machine is over at once
	if err != nil {
		return nil, err
	}
	tlsAddr, err := b.addr() //nolint:contextcheck // probing a port of this machine is over at once
	if err != nil {
		return nil, err
	}
	var servers strings.Builder
	for i, addr := range b.backends {
		fmt.Fprintf(&servers, "  server app%d %s pool-max-conn 512\n", i, addr)
	}
	config, err := b.writeFile("haproxy.cfg", fmt.Sprintf(haproxyConfig, addr, servers.String(), tlsAddr, b.certificate))
	if err != nil {
		return nil, err
	}
	child, err := b.launch(ctx, "haproxy", addr, nil, program, "-db", "-f", config)
	if err != nil {
		return nil, err
	}
	return []*setup{
		{name: "haproxy", hops: 1, target: addr, processes: []*process{child}, version: version(ctx, program, "-v")},
		{name: "haproxy", hops: 1, usesTLS: true, target: tlsAddr, processes: []*process{child}},
	}, nil
}
