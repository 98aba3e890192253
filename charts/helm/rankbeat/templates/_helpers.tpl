{{/* Labels of every object. */}}
{{- define "rankbeat.labels" -}}
app.kubernetes.io/part-of: rankbeat
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Full name of one of our images: (list . "operator"). */}}
{{- define "rankbeat.image" -}}
{{- $root := index . 0 -}}
{{- $images := $root.Values.images -}}
{{- with $images.registry }}{{ . }}/{{ end }}{{ $images.prefix }}/{{ index . 1 }}:{{ $images.tag | default $root.Chart.AppVersion }}
{{- end }}

{{/* What the webhook adds to a pod whose monitor asks for a sidecar, as JSON. */}}
{{- define "rankbeat.sidecar" -}}
{{- dict
  "image" (include "rankbeat.image" (list . "node"))
  "pullPolicy" .Values.images.pullPolicy
  "pullSecrets" .Values.sidecar.pullSecrets
  "resources" .Values.sidecar.resources
  | toJson }}
{{- end }}

{{/* Security of a container that needs nothing. */}}
{{- define "rankbeat.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rankbeat.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "rankbeat.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
