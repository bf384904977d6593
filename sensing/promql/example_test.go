package promql_test

import (
	"fmt"

	"github.com/mash2-io/mash2/sensing/promql"
)

func ExampleConfine() {
	fmt.Println(promql.Confine(`sum(rate(jobs_total[1m]))`, "namespace", "shop", ""))
	_, err := promql.Confine(`sum(jobs{namespace="bank"})`, "namespace", "shop", "")
	fmt.Println(err != nil)
	// Output:
	// sum(rate(jobs_total{namespace="shop"}[1m])) <nil>
	// true
}
