package configmap_test

import (
	"fmt"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
	"github.com/mash2-io/mash2/strategic/configmap"
)

func ExampleParse() {
	data := map[string]string{configmap.KeyPolicies: `
default: COST_SAVING
policies:
  PERFORMANCE: {minReplicas: 3}
schedule:
  - {cron: "0 8 * * 1-5", timeZone: Europe/London, policy: PERFORMANCE}
  - {cron: "0 19 * * *", timeZone: Europe/London, policy: COST_SAVING}
`}
	spec, err := configmap.Parse(data, nil)
	if err != nil {
		fmt.Println(err)
	}
	for _, hour := range []int{6, 10, 22} { // a Monday in summer, an hour behind London
		p := strategic.Decide(spec, api.Snapshot{Time: time.Date(2026, 8, 3, hour, 0, 0, 0, time.UTC)})
		fmt.Println(hour, p.Name, p.MinReplicas)
	}
	_, err = configmap.Parse(map[string]string{configmap.KeyPolicies: "policies: {PERFORMANCE: {minReplica: 3}}"}, nil)
	fmt.Println(err)
	// Output:
	// 6 COST_SAVING 1
	// 10 PERFORMANCE 3
	// 22 COST_SAVING 1
	// policies.yaml: unknown field "policies.PERFORMANCE.minReplica"
}
