//! Modules that are asked for while a program runs: there are none.

use rquickjs::{
    Ctx, Module,
    loader::{ImportAttributes, Loader, Resolver},
    module::Declared,
};

/// Refuses modules. The compiler has taken the imports out of a program; code that is evaluated at run time is not compiled.
pub(super) struct NoModules;

impl Resolver for NoModules {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        _base: &str,
        _name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let message = "code that is evaluated cannot import; import at the top of the program, or use the global `pml`";
        Err(rquickjs::Exception::throw_type(ctx, message))
    }
}

impl Loader for NoModules {
    fn load<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        Err(rquickjs::Error::new_loading(name))
    }
}
