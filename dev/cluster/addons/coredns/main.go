// Command coredns is CoreDNS with the five plugins that a cluster's DNS needs.
// The stock program has twice as many packages, most of them cloud SDKs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	dnsserver.Directives = []string{"errors", "health", "ready", "template", "kubernetes"}
	coremain.Run()
}
