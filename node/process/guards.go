package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/config"
	"shardway/internal/address"
	"shardway/internal/secret"
	"shardway/node"
	"shardway/node/disk"
	"shardway/verdict"
)

// guards is what keeps strangers out, read from the files that the settings
// name. Files that change are read again; what is wrong with a file stays
// without effect.
type guards struct {
	c    *config.Config
	log  zerolog.Logger
	node string // id, once it is known

	keeper *secret.Store      // nil: no secret
	seal   *secret.TLSWrapper // nil: plain between nodes
	pki    *secret.PKI        // nil: certificates are made from the secret
	access admin.Access
	cert   atomic.Pointer[tls.Certificate]  // of the admin port; nil: it speaks no TLS
	shown  atomic.Pointer[x509.Certificate] // to other nodes, of pki
	// What the files were before they were read.
	seen struct{ pki, access, cert secret.FileState }
}

// see looks at files that settings name; an empty name is none.
func see(paths ...string) secret.FileState {
	return secret.StatFiles(slices.DeleteFunc(paths, func(p string) bool { return p == "" })...)
}

// openGuards reads the files. Mistakes are found before anything is opened, all of
// them: the error is what errors.Join makes of them.
func openGuards(c *config.Config, log zerolog.Logger) (*guards, error) {
	g := &guards{c: c, log: log}
	g.seen.pki, g.seen.cert = see(c.TLSCA, c.TLSNodeCert, c.TLSNodeKey), see(c.AdminCert, c.AdminKey)
	g.seen.access = see(c.AdminReadTokenFile, c.AdminWriteTokenFile, c.AdminReadCA, c.AdminWriteCA)
	var wrong []error
	if c.SecretFile != "" {
		var err error
		if g.keeper, err = secret.Open(c.SecretFile); err != nil {
			wrong = append(wrong, fmt.Errorf("--secret-file: %w", err))
		}
	}
	if c.TLSCA != "" {
		g.pki = &secret.PKI{CA: c.TLSCA, Cert: c.TLSNodeCert, Key: c.TLSNodeKey}
	}
	var faults []error
	g.access, faults = access(c)
	wrong = append(wrong, faults...)
	if c.AdminCert != "" {
		cert, err := secret.KeyPair(c.AdminCert, c.AdminKey)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--admin-cert: %w", err))
		}
		g.cert.Store(&cert)
	}
	return g, errors.Join(wrong...)
}

// arm gives the options of a node what protects it.
func (g *guards) arm(o *node.Options) error {
	o.Secrets = g.keeper
	id := o.Dir.Node()
	g.node = id
	var trust *secret.Trust
	var err error
	switch {
	case g.pki != nil:
		if trust, err = g.pki.Load(id); err != nil {
			return fmt.Errorf("--tls-node-cert: %w", err)
		}
		g.seal = secret.NewTLSWrapper(trust)
		g.shown.Store(trust.Leaf())
	case g.keeper != nil:
		if trust, err = secret.Derive(g.keeper.List(), id); err != nil {
			return err
		}
		g.seal = secret.NewTLSWrapper(trust)
		g.keeper.OnChange(func(l secret.List) error {
			next, err := secret.Derive(l, id)
			if err == nil {
				g.seal.Replace(next)
			}
			return err
		})
	default:
		return nil
	}
	o.WrapClient, o.WrapServer = g.seal.Client, g.seal.Server
	return nil
}

// share has the clients of f resume their sessions at any node, if there is a secret.
func (g *guards) share(f *front) {
	if g.keeper == nil {
		return
	}
	g.keeper.OnChange(func(l secret.List) error {
		f.share(l)
		return nil
	})
	f.share(g.keeper.List())
}

// access reads who may do what at the admin port.
func access(c *config.Config) (admin.Access, []error) {
	a := admin.Access{Hosts: c.AdminHosts}
	var wrong []error
	for _, f := range []struct {
		flag, path string
		into       *admin.Tokens
	}{{"admin-read-token-file", c.AdminReadTokenFile, &a.Read}, {"admin-write-token-file", c.AdminWriteTokenFile, &a.Write}} {
		if f.path == "" {
			continue
		}
		b, err := secret.ReadTokens(f.path)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", f.flag, err))
			continue
		}
		if *f.into, err = admin.ParseTokens(b); err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %s: %w", f.flag, f.path, err))
		}
	}
	for _, f := range []struct {
		flag, path string
		into       **x509.CertPool
	}{{"admin-read-ca", c.AdminReadCA, &a.ReadCAs}, {"admin-write-ca", c.AdminWriteCA, &a.WriteCAs}} {
		if f.path == "" {
			continue
		}
		cas, err := secret.ReadAuthorities(f.path)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", f.flag, err))
			continue
		}
		*f.into = x509.NewCertPool()
		for _, ca := range cas {
			(*f.into).AddCert(ca)
		}
	}
	return a, wrong
}

// listener puts TLS beneath the admin port if it has a certificate.
func (g *guards) listener(ln net.Listener) net.Listener {
	if g.cert.Load() == nil {
		return ln
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Which certificate may do what is judged with each request.
		ClientAuth:     tls.RequestClientCert,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.cert.Load(), nil },
	})
}

// run looks after the files until ctx ends.
func (g *guards) run(ctx context.Context, n *node.Node, ops *admin.Server) {
	var wg sync.WaitGroup
	if g.keeper != nil {
		wg.Go(func() { g.keeper.Run(ctx, g.log) })
	}
	watch := func(what string, seen secret.FileState, reload func() error) {
		if seen.Empty() {
			return
		}
		wg.Go(func() {
			seen.Watch(ctx, func() {
				if err := reload(); err != nil {
					g.log.Error().Err(err).Str("what", what).Msg("changed file rejected: the old one stays in use")
					return
				}
				g.log.Info().Str("what", what).Msg("changed file loaded")
			})
		})
	}
	if g.pki != nil {
		watch("certificates between nodes", g.seen.pki, func() error { return g.reloadPKI(n) })
	}
	c := g.c
	watch("access to admin", g.seen.access, func() error {
		a, wrong := access(c)
		err := errors.Join(wrong...)
		if err == nil {
			ops.SetAccess(a)
		}
		return err
	})
	watch("certificate of admin", g.seen.cert, func() error {
		cert, err := secret.KeyPair(c.AdminCert, c.AdminKey)
		if err == nil {
			g.cert.Store(&cert)
		}
		return err
	})
	wg.Wait()
}

// reloadPKI is met with half a change too, when one file is new and the other
// still old: the next look finds the rest.
func (g *guards) reloadPKI(n *node.Node) error {
	trust, err := g.pki.Load(g.node)
	if err != nil {
		return err
	}
	g.seal.Replace(trust)
	g.shown.Store(trust.Leaf())
	n.RenewPeers()
	return nil
}

// exposed says what the operator has left open, and which certificates are in use.
func (p *Process) exposed() (open []verdict.Exposure, certs []verdict.Certificate) {
	g := p.guards
	c := g.c
	if !c.Sealed() && (!address.IsLoopback(c.Peer) || !address.IsLoopback(c.Gossip)) {
		open = append(open, verdict.Exposure{
			Text:   fmt.Sprintf("anyone who reaches the gossip or peer port of node %s (%s, %s) controls the traffic", g.node, c.Gossip, c.Peer),
			Remedy: "give the cluster a secret (--secret-file)",
		})
	}
	switch {
	case address.IsLoopback(c.Admin):
	case !c.Guarded():
		open = append(open, verdict.Exposure{
			Text: fmt.Sprintf("anyone who reaches the admin port of node %s (%s) can change the cluster", g.node, c.Admin), Remedy: "require a token (--admin-write-token-file)",
		})
	case c.AdminCert == "":
		open = append(open, verdict.Exposure{
			Text: fmt.Sprintf("the admin tokens of node %s (%s) travel in the clear", g.node, c.Admin), Remedy: "give the port a certificate (--admin-cert, --admin-key)",
		})
	}
	add := func(what, flag string, leaf *x509.Certificate) {
		if leaf != nil {
			certs = append(certs, verdict.Certificate{What: what, Flag: flag, Until: leaf.NotAfter})
		}
	}
	if now := p.front.cert.Load(); now != nil {
		add("the app port", "tls-cert", now.tls.Leaf)
	}
	if now := g.cert.Load(); now != nil {
		add("the admin port", "admin-cert", now.Leaf)
	}
	if g.pki != nil {
		add("other nodes", "tls-node-cert", g.shown.Load())
	}
	return open, certs
}

// Check reads every file that the settings name for security, as New does, looks whether
// the data directory can be written, and returns what is wrong, each as "--flag: why". Own certificates are
// judged for the node id of the settings, if there is one.
func Check(c *config.Config) []error {
	g, err := openGuards(c, zerolog.Nop())
	var wrong []error
	if all, ok := err.(interface{ Unwrap() []error }); ok { // what errors.Join makes
		wrong = all.Unwrap()
	}
	if g.pki != nil && c.Node != "" && c.TLSNodeCert != "" && c.TLSNodeKey != "" {
		if _, err := g.pki.Load(c.Node); err != nil {
			wrong = append(wrong, fmt.Errorf("--tls-node-cert: %w", err))
		}
	}
	if _, err := readCertificate(c.TLSCert, c.TLSKey); err != nil {
		wrong = append(wrong, err)
	}
	if err := disk.CheckWritable(c.Data); c.Data != "" && err != nil {
		wrong = append(wrong, fmt.Errorf("--data: %w", err))
	}
	return wrong
}
