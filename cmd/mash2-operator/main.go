// Command mash2-operator is the program of the image: the operator, and the
// commands by which it is handled from within a cluster. Unlike cmd/mash2 it has no
// laboratory in it.
package main

import "github.com/mash2-io/mash2/cmd/cli"

func main() { cli.Program{}.Main() }
