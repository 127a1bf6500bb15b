//! A `tpu_custom_call`: one kernel, as the operation by which XLA calls it.

use base64::Engine;

/// One call of a kernel. Types are texts as `tensor<8x128xf32>`.
pub(super) struct Call<'a> {
    /// Name of the kernel.
    pub(super) kernel: &'a str,
    /// The Mosaic module, in the form and version that the compiler reads.
    pub(super) body: &'a str,
    pub(super) vmem_limit_bytes: Option<u64>,
    /// Whether each copy is checked against the bounds of its arrays as it runs.
    pub(super) bounds_checks: bool,
    pub(super) operands: &'a [String],
    pub(super) operand_types: &'a [String],
    pub(super) result_types: &'a [String],
    /// Pairs of a result and the operand in whose memory it is.
    pub(super) aliases: &'a [(usize, usize)],
}

impl Call<'_> {
    /// The statement that gives the result this name.
    pub(super) fn statement(&self, name: &str) -> String {
        let (arity, result_list) = match self.result_types {
            [one] => (String::new(), one.clone()),
            many => (format!(":{}", many.len()), format!("({})", many.join(", "))),
        };
        let aliases: Vec<String> = self.aliases.iter().map(|pair| self.alias(*pair)).collect();
        let layouts = |types: &[String]| -> String {
            let layouts: Vec<String> = types.iter().map(|ty| layout(ty)).collect();
            layouts.join(", ")
        };
        // The compiler's reports and profiles name a call by its location.
        let kernel = self.kernel;
        format!(
            "{name}{arity} = stablehlo.custom_call @tpu_custom_call({}) {{backend_config = \"{}\", kernel_name = \"{kernel}\", operand_layouts = [{}], output_operand_aliases = [{}], result_layouts = [{}]}} : ({}) -> {result_list} loc(\"{kernel}\")",
            self.operands.join(", "),
            self.backend_config(),
            layouts(self.operand_types),
            aliases.join(", "),
            layouts(self.result_types),
            self.operand_types.join(", "),
        )
    }

    fn alias(&self, (result, operand): (usize, usize)) -> String {
        let index = match self.result_types.len() {
            1 => String::new(),
            _ => result.to_string(),
        };
        format!(
            "#stablehlo.output_operand_alias<output_tuple_indices = [{index}], operand_index = {operand}, operand_tuple_indices = []>"
        )
    }

    /// The configuration of the custom call, as the text inside an MLIR string.
    fn backend_config(&self) -> String {
        let body = base64::engine::general_purpose::STANDARD.encode(self.body);
        let checks = match self.bounds_checks {
            true => "",
            false => r#", "disable_bounds_checks": true"#,
        };
        let limit = self.vmem_limit_bytes.map_or(String::new(), |bytes| {
            format!(
                r#", "scoped_memory_configs": [{{"memory_space":1, "offset": 0, "size": {bytes}}}]"#
            )
        });
        let config = format!(
            r#"{{"custom_call_config": {{"body": "{body}", "serialization_format": 1, "needs_layout_passes": true{checks}}}{limit}}}"#
        );
        config.replace('"', "\\22")
    }

    /// The value that is one of the results of the statement of this name.
    pub(super) fn result(&self, name: &str, index: usize) -> String {
        match self.result_types.len() {
            1 => name.into(),
            _ => format!("{name}#{index}"),
        }
    }
}

/// Row-major: the last dimension varies fastest.
fn layout(ty: &str) -> String {
    let rank = ty.matches('x').count();
    let order: Vec<String> = (0..rank).rev().map(|i| i.to_string()).collect();
    match rank {
        0 => "dense<> : tensor<0xindex>".into(),
        1 => "dense<0> : tensor<1xindex>".into(),
        _ => format!("dense<[{}]> : tensor<{rank}xindex>", order.join(", ")),
    }
}
